// Fixes the order in which the JDK's Set.of and Map.of iterate, which differs from one JVM to the next: their hash
// tables are salted with the time at which the JVM starts. Without it, equal runs would differ between JVMs.
package splitbrain.simulation;

import java.lang.reflect.Field;

final class SetOrder {
    private static final long SALT = 0x2545F491L;

    private SetOrder() { }

    /** Must be called before the nodes' code runs; the methods that read the salt must not be compiled before. */
    static void fix() throws ReflectiveOperationException {
        Field instance = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        instance.setAccessible(true);
        sun.misc.Unsafe unsafe = (sun.misc.Unsafe) instance.get(null);
        Class<?> sets = Class.forName("java.util.ImmutableCollections");
        Field salt = sets.getDeclaredField("SALT32L");
        Field isReversed = sets.getDeclaredField("REVERSE");
        unsafe.putLong(unsafe.staticFieldBase(salt), unsafe.staticFieldOffset(salt), SALT);
        unsafe.putBoolean(unsafe.staticFieldBase(isReversed), unsafe.staticFieldOffset(isReversed), false);
    }
}
