package sluice.bench;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.sink.SinkConnector;

/** Gives each task the connector's settings as they are. */
abstract class Sink extends SinkConnector {
  static final String VERSION = "1";
  private Map<String, String> settings;

  @Override
  public String version() {
    return VERSION;
  }

  @Override
  public void start(Map<String, String> settings) {
    this.settings = settings;
  }

  @Override
  public List<Map<String, String>> taskConfigs(int most) {
    List<Map<String, String>> tasks = new ArrayList<>();
    for (int task = 0; task < most; task++) {
      tasks.add(settings);
    }
    return tasks;
  }

  @Override
  public void stop() {}

  @Override
  public ConfigDef config() {
    return new ConfigDef();
  }
}
