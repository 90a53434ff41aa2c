// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.TypeConversionException;

/** Reads a heap size from a command line. */
final class HeapSizeConverter implements ITypeConverter<HeapSize> {
    @Override
    public HeapSize convert(String text) {
        try {
            return HeapSize.parse(text);
        } catch (IllegalArgumentException | ArithmeticException e) {
            throw new TypeConversionException(e.getMessage());
        }
    }
}
