package sluice.bench;

import java.util.concurrent.atomic.LongAdder;

/** How many records all tasks of this process have taken; told on standard output as it grows. */
final class Taken {
  private static final LongAdder RECORDS = new LongAdder();
  private static final long PERIOD_MS = 50;

  static {
    Thread teller = new Thread(Taken::tell, "taken");
    teller.setDaemon(true);
    teller.start();
  }

  private Taken() {}

  static void add(long records) {
    RECORDS.add(records);
  }

  private static void tell() {
    long told = -1;
    try {
      while (true) {
        long now = RECORDS.sum();
        if (now != told) {
          told = now;
          System.out.println("taken " + System.currentTimeMillis() + " " + now);
          System.out.flush();
        }
        Thread.sleep(PERIOD_MS);
      }
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
    }
  }
}
