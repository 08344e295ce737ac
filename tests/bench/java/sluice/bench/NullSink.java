package sluice.bench;

import java.io.IOException;
import java.util.Collection;
import java.util.Map;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;

/** Takes records and does nothing with them but wait. */
public final class NullSink extends Sink {
  @Override
  public Class<Task> taskClass() {
    return Task.class;
  }

  public static final class Task extends SinkTask {
    private Target target;

    @Override
    public String version() {
      return VERSION;
    }

    @Override
    public void start(Map<String, String> settings) {
      target = new Target(settings);
    }

    @Override
    public void put(Collection<SinkRecord> records) {
      target.put(records, SinkRecord::kafkaOffset, record -> (byte[]) record.value());
      Taken.add(records.size());
    }

    @Override
    public void stop() {
      try {
        target.close();
      } catch (IOException error) {
        throw new ConnectException(error);
      }
    }
  }
}
