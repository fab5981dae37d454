// The log of one node's Raft client. Lines that begin as one of the requested beginnings are reported; a line's text is
// made for those only. Kafka's LogContext creates all loggers of a client, so no logging library is involved.
package org.apache.kafka.raft;

import org.apache.kafka.common.utils.LogContext;
import org.slf4j.Logger;
import org.slf4j.helpers.MarkerIgnoringBase;
import org.slf4j.helpers.MessageFormatter;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.regex.Pattern;

final class CapturedLog extends LogContext {
    // The text of an object without a toString of its own ends with its address, which differs between equal runs.
    private static final Pattern IDENTITY = Pattern.compile("([\\w$])@[0-9a-f]+");
    private static final Map<String, Boolean> WANTED = new HashMap<>();
    private static List<String> beginnings = List.of();

    private final transient Logger logger;

    CapturedLog(int node, Consumer<String> report) {
        super("[RaftManager id=" + node + "] ");
        logger = new Capture(report);
    }

    static void capture(List<String> lineBeginnings) {
        beginnings = lineBeginnings;
        WANTED.clear();
    }

    @Override
    public Logger logger(Class<?> type) {
        return logger;
    }

    public Logger logger(String name) {
        return logger;
    }

    private static boolean isWanted(String format) {
        return WANTED.computeIfAbsent(format, text -> beginnings.stream().anyMatch(text::startsWith));
    }

    private static final class Capture extends MarkerIgnoringBase {
        private static final long serialVersionUID = 1;
        private final transient Consumer<String> report;

        Capture(Consumer<String> report) {
            this.report = report;
        }

        private void write(String format, Object... values) {
            if (format == null || !isWanted(format)) return;
            String text = MessageFormatter.arrayFormat(format, values).getMessage();
            report.accept(text.indexOf('@') < 0 ? text : IDENTITY.matcher(text).replaceAll("$1"));
        }

        @Override public boolean isTraceEnabled() { return false; }
        @Override public void trace(String text) { }
        @Override public void trace(String format, Object value) { }
        @Override public void trace(String format, Object first, Object second) { }
        @Override public void trace(String format, Object... values) { }
        @Override public void trace(String text, Throwable error) { }
        @Override public boolean isDebugEnabled() { return false; }
        @Override public void debug(String text) { }
        @Override public void debug(String format, Object value) { }
        @Override public void debug(String format, Object first, Object second) { }
        @Override public void debug(String format, Object... values) { }
        @Override public void debug(String text, Throwable error) { }
        @Override public boolean isInfoEnabled() { return true; }
        @Override public void info(String text) { write(text); }
        @Override public void info(String format, Object value) { write(format, value); }
        @Override public void info(String format, Object first, Object second) { write(format, first, second); }
        @Override public void info(String format, Object... values) { write(format, values); }
        @Override public void info(String text, Throwable error) { write(text); }
        @Override public boolean isWarnEnabled() { return true; }
        @Override public void warn(String text) { write(text); }
        @Override public void warn(String format, Object value) { write(format, value); }
        @Override public void warn(String format, Object first, Object second) { write(format, first, second); }
        @Override public void warn(String format, Object... values) { write(format, values); }
        @Override public void warn(String text, Throwable error) { write(text); }
        @Override public boolean isErrorEnabled() { return true; }
        @Override public void error(String text) { write(text); }
        @Override public void error(String format, Object value) { write(format, value); }
        @Override public void error(String format, Object first, Object second) { write(format, first, second); }
        @Override public void error(String format, Object... values) { write(format, values); }
        @Override public void error(String text, Throwable error) { write(text); }
    }
}
