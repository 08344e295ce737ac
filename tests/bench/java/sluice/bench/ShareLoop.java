package sluice.bench;

import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * The loop of a share sink task as KIP-1302 has it: poll, put, acknowledge each record, commitSync;
 * a share consumer for each task.
 *
 * <p>Arguments: a file of settings (topics, tasks.max, those of {@link Target}, and the consumer's
 * own behind {@code consumer.}).
 */
public final class ShareLoop {
  private ShareLoop() {}

  public static void main(String[] arguments) throws IOException, InterruptedException {
    Properties file = new Properties();
    try (InputStream in = new FileInputStream(arguments[0])) {
      file.load(in);
    }
    Map<String, String> settings = new HashMap<>();
    file.stringPropertyNames().forEach(name -> settings.put(name, file.getProperty(name)));
    List<Thread> tasks = new ArrayList<>();
    for (int task = 0; task < Integer.parseInt(settings.get("tasks.max")); task++) {
      Thread thread = new Thread(() -> run(settings), "task-" + task);
      thread.setDaemon(true);
      thread.setUncaughtExceptionHandler(ShareLoop::end);
      thread.start();
      tasks.add(thread);
    }
    for (Thread task : tasks) {
      task.join();
    }
  }

  private static void end(Thread task, Throwable error) {
    System.err.println(task.getName() + " ended");
    error.printStackTrace();
    System.exit(1);
  }

  private static void run(Map<String, String> settings) {
    Map<String, Object> properties = new HashMap<>();
    properties.put("share.acknowledgement.mode", "explicit");
    for (Map.Entry<String, String> setting : settings.entrySet()) {
      if (setting.getKey().startsWith("consumer.")) {
        properties.put(setting.getKey().substring("consumer.".length()), setting.getValue());
      }
    }
    ByteArrayDeserializer bytes = new ByteArrayDeserializer();
    Target target = new Target(settings);
    try (KafkaShareConsumer<byte[], byte[]> consumer =
        new KafkaShareConsumer<>(properties, bytes, bytes)) {
      consumer.subscribe(List.of(settings.get("topics")));
      while (true) {
        ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofSeconds(1));
        if (!records.isEmpty()) {
          target.put(records, ConsumerRecord::offset, ConsumerRecord::value);
          for (ConsumerRecord<byte[], byte[]> record : records) {
            consumer.acknowledge(record, AcknowledgeType.ACCEPT);
          }
          consumer.commitSync();
          Taken.add(records.count());
        }
      }
    }
  }
}
