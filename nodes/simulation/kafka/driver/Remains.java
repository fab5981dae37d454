// What remains of a node whose process has ended, for the node that takes its place with other properties or another
// release. Nothing in it is of a release's classes, but memory is of those that made it.
package splitbrain.simulation;

import java.nio.file.Path;
import java.util.Map;

/**
 * @param incarnation how often its process has started or ended
 * @param diskGeneration how many disks it has lost
 * @param synced of each segment of a log in files, how many bytes are synced
 * @param memory a disk in memory; null for one in files
 */
public record Remains(int incarnation, int diskGeneration, Map<Path, Long> synced, Object memory) { }
