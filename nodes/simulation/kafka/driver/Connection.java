// One TCP connection from a node to another, as far as the nodes can see it: requests and responses arrive in order;
// when it breaks, the client's pending requests fail. A message that a rule drops loses those after it, because a
// receiver never skips a part of a stream. A message on a cut link is lost alone.
package splitbrain.simulation;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

final class Connection {
    // A request that waits for its response.
    record Pending(Request request, short version, long sentMs) {
        short apiKey() {
            return request.apiKey();
        }
    }

    // A message, or the end of the connection, on its way; held until its rule ends.
    private static final class Item {
        final Runnable deliver;
        final long dueMs;
        Rules.Rule heldBy;

        Item(Runnable deliver, long dueMs, Rules.Rule heldBy) {
            this.deliver = deliver;
            this.dueMs = dueMs;
            this.heldBy = heldBy;
        }
    }

    /** One direction: messages are delivered in order, each no earlier than it is due. */
    final class Direction {
        private final ArrayDeque<Item> items = new ArrayDeque<>();
        private long lastDueMs;
        private boolean isLost;

        void put(Runnable deliver, long delayMs, Rules.Rule heldBy) {
            if (isLost) return;
            lastDueMs = Math.max(lastDueMs, simulation.nowMs() + delayMs);
            items.add(new Item(deliver, lastDueMs, heldBy));
            if (heldBy != null) heldBy.holding++;
            else simulation.at(lastDueMs, this::flush);
        }

        void lose() {
            isLost = true;
        }

        private void flush() {
            while (!items.isEmpty() && items.peek().heldBy == null && items.peek().dueMs <= simulation.nowMs())
                items.poll().deliver.run();
        }

        /** A rule has ended: deliver what it holds, or lose it and what follows. Returns whether anything was lost. */
        boolean release(Rules.Rule rule) {
            boolean isHeld = items.stream().anyMatch(item -> item.heldBy == rule);
            if (!isHeld) return false;
            if (rule.loses) {
                clear();
                lose();
                return true;
            }
            for (Item item : items) {
                if (item.heldBy != rule) continue;
                item.heldBy = null;
                rule.holding--;
            }
            for (Item item : items) simulation.at(Math.max(item.dueMs, simulation.nowMs()), this::flush);
            return false;
        }

        private void clear() {
            for (Item item : items) if (item.heldBy != null) item.heldBy.holding--;
            items.clear();
        }
    }

    private final Simulation simulation;
    final int client;
    final int server;
    final Direction requests = new Direction();
    final Direction responses = new Direction();
    final Map<Integer, Pending> pending = new LinkedHashMap<>();
    // The server's incarnation that accepted the connection; 0 until it has.
    int accepted;
    boolean isClosed;
    boolean hasTimer;

    Connection(Simulation simulation, int client, int server) {
        this.simulation = simulation;
        this.client = client;
        this.server = server;
    }

    /** The client's end is closed: what waits for a response gets none, and what was sent still arrives. */
    List<Pending> close() {
        isClosed = true;
        responses.clear();
        responses.lose();
        List<Pending> failed = new ArrayList<>(pending.values());
        pending.clear();
        return failed;
    }
}
