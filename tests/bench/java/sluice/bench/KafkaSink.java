package sluice.bench;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;

/** Writes records as JSON to a topic, and waits for the broker's answer before a put returns. */
public final class KafkaSink extends Sink {
  @Override
  public Class<Task> taskClass() {
    return Task.class;
  }

  public static final class Task extends SinkTask {
    private final JsonConverter json = new JsonConverter();
    private KafkaProducer<byte[], byte[]> producer;
    private String topic;

    @Override
    public String version() {
      return VERSION;
    }

    @Override
    public void start(Map<String, String> settings) {
      topic = settings.get("target.topic");
      json.configure(Map.of("schemas.enable", settings.getOrDefault("schemas.enable", "true")), false);
      Map<String, Object> properties = new HashMap<>();
      properties.put("acks", "all");
      for (Map.Entry<String, String> setting : settings.entrySet()) {
        if (setting.getKey().startsWith("producer.")) {
          properties.put(setting.getKey().substring("producer.".length()), setting.getValue());
        }
      }
      ByteArraySerializer bytes = new ByteArraySerializer();
      producer = new KafkaProducer<>(properties, bytes, bytes);
    }

    @Override
    public void put(Collection<SinkRecord> records) {
      List<Future<RecordMetadata>> sent = new ArrayList<>(records.size());
      for (SinkRecord record : records) {
        byte[] value = json.fromConnectData(topic, record.valueSchema(), record.value());
        sent.add(producer.send(new ProducerRecord<>(topic, value)));
      }
      try {
        for (Future<RecordMetadata> one : sent) {
          one.get();
        }
      } catch (InterruptedException error) {
        Thread.currentThread().interrupt();
        throw new ConnectException(error);
      } catch (ExecutionException error) {
        throw new ConnectException(error.getCause());
      }
      Taken.add(records.size());
    }

    @Override
    public void stop() {
      if (producer != null) {
        producer.close();
      }
    }
  }
}
