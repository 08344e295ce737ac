package sluice.bench;

import java.io.ByteArrayOutputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;

/**
 * What a sink does with its records: nothing, for as long as it is told. Its settings are those of
 * Sluice's null sink, and mean the same.
 */
final class Target implements AutoCloseable {
  private final long recordNanos;
  private final long slowEvery;
  private final long slowNanos;
  private final OutputStream file;
  private final ByteArrayOutputStream lines = new ByteArrayOutputStream();

  Target(Map<String, String> settings) {
    recordNanos = 1_000 * Long.parseLong(settings.getOrDefault("record.latency.us", "0"));
    String slow = settings.getOrDefault("slow.match", "");
    slowEvery = slow.isEmpty() ? 0 : Long.parseLong(slow.replace("every=", ""));
    slowNanos = 1_000_000 * Long.parseLong(settings.getOrDefault("slow.ms", "1000"));
    file = open(settings.get("record.file"));
  }

  /** Waits once for all records of a put: timers have a grain. */
  long nanos(long records, long slow) {
    return records * recordNanos + slow * slowNanos;
  }

  boolean isSlow(long offset) {
    return slowEvery > 0 && offset % slowEvery == slowEvery - 1;
  }

  void pause(long nanos) {
    long until = System.nanoTime() + nanos;
    for (long left = nanos; left > 0; left = until - System.nanoTime()) {
      LockSupport.parkNanos(left);
    }
  }

  boolean tellsRecords() {
    return file != null;
  }

  /** Notes a delivered record, told by {@link #flush}. */
  void note(byte[] value) {
    lines.writeBytes(value);
    lines.write('\n');
  }

  void flush() {
    try {
      file.write(lines.toByteArray());
      lines.reset();
    } catch (IOException error) {
      throw new IllegalStateException("cannot write record.file", error);
    }
  }

  @Override
  public void close() throws IOException {
    if (file != null) {
      file.close();
    }
  }

  private static OutputStream open(String path) {
    try {
      return path == null ? null : new FileOutputStream(path, true);
    } catch (IOException error) {
      throw new IllegalArgumentException("cannot open record.file " + path, error);
    }
  }
}
