package sluice.bench;

import java.io.ByteArrayOutputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Function;
import java.util.function.ToLongFunction;

/**
 * What a sink does with its records: nothing, for as long as it is told. Its settings are those of
 * Sluice's null sink, and mean the same.
 */
final class Target implements AutoCloseable {
  private final long recordNanos;
  private final long slowEvery;
  private final long slowNanos;
  private final OutputStream file;

  Target(Map<String, String> settings) {
    recordNanos = 1_000 * Long.parseLong(settings.getOrDefault("record.latency.us", "0"));
    String slow = settings.getOrDefault("slow.match", "");
    slowEvery = slow.isEmpty() ? 0 : Long.parseLong(slow.replace("every=", ""));
    slowNanos = 1_000_000 * Long.parseLong(settings.getOrDefault("slow.ms", "1000"));
    file = open(settings.get("record.file"));
  }

  /**
   * Delivers the records of a put, the slow ones after the others. Waits once for all fast ones, as
   * timers have a grain, and once for all slow ones.
   */
  <R> void put(Iterable<R> records, ToLongFunction<R> offset, Function<R, byte[]> value) {
    List<R> fast = new ArrayList<>();
    List<R> slow = new ArrayList<>();
    long count = 0;
    for (R record : records) {
      (isSlow(offset.applyAsLong(record)) ? slow : fast).add(record);
      count++;
    }
    pause(count * recordNanos);
    note(fast, value);
    if (!slow.isEmpty()) {
      pause(slowNanos);
      note(slow, value);
    }
  }

  private boolean isSlow(long offset) {
    return slowEvery > 0 && offset % slowEvery == slowEvery - 1;
  }

  private static void pause(long nanos) {
    long until = System.nanoTime() + nanos;
    for (long left = nanos; left > 0; left = until - System.nanoTime()) {
      LockSupport.parkNanos(left);
    }
  }

  /** Appends values by one write: those of other tasks do not come between the lines. */
  private <R> void note(List<R> records, Function<R, byte[]> value) {
    if (file == null || records.isEmpty()) {
      return;
    }
    ByteArrayOutputStream lines = new ByteArrayOutputStream();
    for (R record : records) {
      lines.writeBytes(value.apply(record));
      lines.write('\n');
    }
    try {
      file.write(lines.toByteArray());
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
