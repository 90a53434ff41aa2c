// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher.install;

import java.io.IOException;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.Predicate;

/** The changes that an installation needs, in their order; none if it is as it should be. */
public final class Plan {
    private final List<Change> changes;
    private final List<String> notes;

    Plan(List<Change> changes, List<String> notes) {
        this.changes = List.copyOf(changes);
        this.notes = List.copyOf(notes);
    }

    /** Whether there is nothing to do. */
    public boolean isEmpty() {
        return changes.isEmpty();
    }

    /** What would be done, one change behind the other; of files as {@code diff -u} says it. */
    public String text() {
        StringBuilder text = new StringBuilder();
        for (Change change : changes) text.append(change.text());
        return text.toString();
    }

    /** What people should know besides, a sentence each. */
    public List<String> notes() {
        return notes;
    }

    /**
     * Does it. If a file cannot be prepared, nothing is changed. After a crash, or an error in the
     * middle, a new plan has what is left.
     *
     * @throws InstallException if something stands in the way
     */
    public void apply() {
        apply(change -> {});
    }

    /**
     * The same, for tests.
     *
     * @param before called before each change becomes visible
     */
    void apply(Consumer<Change> before) {
        try {
            for (Change change : changes) change.stage();
            for (Change change : changes) {
                before.accept(change);
                change.commit();
            }
        } catch (IOException e) {
            throw new InstallException(
                    "the installation could not be changed: "
                            + e
                            + ". When that is mended, run the command again: it does what is left",
                    e);
        } finally {
            discard();
        }
    }

    List<Change> changes() {
        return changes;
    }

    /** Refuses what this user may not do. */
    void checkAllowed(Predicate<Change> allowed) {
        for (Change change : changes)
            if (!allowed.test(change))
                throw new InstallException(
                        change.file()
                                + " or its folder is not writable: run this command as root or as"
                                + " the owner of the files");
    }

    private void discard() {
        try {
            for (Change change : changes) change.discard();
        } catch (IOException e) {
            throw new InstallException("a temporary file could not be deleted: " + e, e);
        }
    }
}
