// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.TypeConversionException;

/** Reads a port from a command line. */
final class PortConverter implements ITypeConverter<Integer> {
    @Override
    public Integer convert(String text) {
        if (!text.matches("\\d{1,5}")) throw noPort(text);
        int port = Integer.parseInt(text);
        if (port == 0 || port > 65535) throw noPort(text);
        return port;
    }

    private static TypeConversionException noPort(String text) {
        return new TypeConversionException("'" + text + "' is no port: give one of 1 to 65535");
    }
}
