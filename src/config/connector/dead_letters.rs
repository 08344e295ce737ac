//! Who writes a connector's dead letters, and where.

use super::limits;
use super::reading::Reading;
use super::{DEAD_LETTER_MODE, DEAD_LETTER_REPLICATION, DEAD_LETTER_TOPIC, Topics};
use crate::config::connector_keys::DEAD_LETTER_HEADERS;
use crate::config::overrides::ConsumerConfig;
use crate::config::producer::ProducerConfig;

const NONE: &str = "none";
const BROKER: &str = "broker";
const SLUICE: &str = "sluice";

/// What becomes of a record that is put aside.
#[derive(Clone, Debug)]
pub enum DeadLetters {
    /// It is rejected, and gone.
    None,
    /// It is rejected, and the brokers write it to this topic (KIP-1191).
    Broker { topic: String },
    /// We write it, and accept it when that is confirmed.
    Sluice(Box<WrittenDeadLetters>),
}

/// The dead letters that we write.
#[derive(Clone, Debug)]
pub struct WrittenDeadLetters {
    pub topic: String,
    /// When the topic is missing and we create it.
    pub replication_factor: i16,
    /// Whether headers tell where a letter comes from and why it is dead.
    pub context_headers: bool,
    pub producer: ProducerConfig,
}

impl Reading<'_> {
    pub(super) fn dead_letters(
        &mut self,
        connector: &str,
        topics: &Topics,
        consumer: &ConsumerConfig,
        tolerates: bool,
    ) -> DeadLetters {
        let topic = self.dead_letter_topic();
        let Some(mode) = self.dead_letter_mode(topic.is_some(), tolerates) else {
            return DeadLetters::None;
        };
        self.note_dead_letter_keys(mode);
        if mode == NONE {
            return DeadLetters::None;
        }
        let Some(topic) = topic else {
            self.faults.add(
                DEAD_LETTER_TOPIC,
                format!("is required by {DEAD_LETTER_MODE}={mode} and not set; name a topic, or set the mode to {NONE}"),
            );
            return DeadLetters::None;
        };
        if mode == BROKER {
            self.check_dead_letter_topic(&topic, Some(topics));
            return DeadLetters::Broker { topic };
        }
        let producer = self
            .letter_producer(&format!("connector-dlq-producer-{connector}"))
            .beside(&consumer.client, topics);
        let reads = producer.reads.as_ref().and_then(|reads| reads.known_here());
        self.check_dead_letter_topic(&topic, reads);
        let mut reader = self.reader();
        let replicas = reader.int(DEAD_LETTER_REPLICATION);
        DeadLetters::Sluice(Box::new(WrittenDeadLetters {
            topic,
            replication_factor: i16::try_from(replicas).unwrap_or(i16::MAX),
            context_headers: reader.boolean(DEAD_LETTER_HEADERS),
            producer,
        }))
    }

    /// Whether letters are asked for that we write.
    pub(super) fn writes_dead_letters(&self) -> bool {
        let mode = self.settings.get(DEAD_LETTER_MODE).map(str::trim);
        mode.is_some_and(|mode| mode.eq_ignore_ascii_case(SLUICE))
    }

    fn dead_letter_topic(&mut self) -> Option<String> {
        let mut reader = self.reader();
        let topic = reader.optional_text(DEAD_LETTER_TOPIC);
        topic.filter(|topic| !topic.is_empty())
    }

    /// `None` when there is nothing to do: no record is put aside.
    fn dead_letter_mode(&mut self, has_topic: bool, tolerates: bool) -> Option<&'static str> {
        let is_given = self.settings.is_given(DEAD_LETTER_MODE);
        match self.reader().optional_choice(DEAD_LETTER_MODE) {
            // It was given and is none of the choices, which is fault enough.
            None if is_given => None,
            // Connect's users have a topic without tolerance, too.
            None if has_topic && !tolerates => {
                self.notes
                    .no_effect(DEAD_LETTER_TOPIC, "errors.tolerance is none");
                None
            }
            None => Some(if has_topic { BROKER } else { NONE }),
            Some(SLUICE) if !tolerates => {
                self.notes
                    .no_effect(DEAD_LETTER_MODE, "errors.tolerance is none");
                None
            }
            Some(BROKER) if !tolerates => {
                self.notes.add(DEAD_LETTER_MODE, "no record is rejected with errors.tolerance=none; only records whose delivery attempts are used up go to the topic");
                Some(BROKER)
            }
            Some(NONE) if has_topic => {
                self.notes
                    .no_effect(DEAD_LETTER_TOPIC, "errors.deadletterqueue.mode is none");
                Some(NONE)
            }
            Some(mode) => Some(mode),
        }
    }

    /// Keys of letters that we write, when somebody else does.
    fn note_dead_letter_keys(&mut self, mode: &str) {
        if mode == SLUICE {
            return;
        }
        for key in [DEAD_LETTER_REPLICATION, DEAD_LETTER_HEADERS] {
            if self.settings.is_given(key) {
                let reason = format!("{DEAD_LETTER_MODE} is {mode}, not {SLUICE}");
                self.notes.no_effect(key, &reason);
            }
        }
    }

    /// `read` are the connector's topics in the same cluster.
    fn check_dead_letter_topic(&mut self, topic: &str, read: Option<&Topics>) {
        if !limits::is_topic(topic) || topic.starts_with("__") {
            self.faults.add(DEAD_LETTER_TOPIC, format!("{topic:?} is no name for it; it has up to 249 letters, digits, '.', '_' and '-', and does not begin with __"));
        } else if read.is_some_and(|read| read.contains(topic)) {
            self.faults.add(DEAD_LETTER_TOPIC, format!("{topic} is read by this connector, so that its dead letters would come round for ever; name another topic"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{faults, good, read};
    use super::*;

    const TOPIC: (&str, &str) = (DEAD_LETTER_TOPIC, "dlq.orders");
    const ALL: (&str, &str) = ("errors.tolerance", "all");

    fn mode(mode: &'static str) -> (&'static str, &'static str) {
        (DEAD_LETTER_MODE, mode)
    }

    fn noted(pairs: &[(&str, &str)]) -> String {
        let read = read(pairs);
        assert_eq!(read.faults.to_string(), "");
        let notes: Vec<String> = read.notes.iter().map(ToString::to_string).collect();
        notes.join("\n")
    }

    fn written(pairs: &[(&str, &str)]) -> WrittenDeadLetters {
        match good(pairs).dead_letters {
            DeadLetters::Sluice(written) => *written,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_topic_alone_means_the_brokers_letters() {
        let by_topic = good(&[ALL, TOPIC]).dead_letters;
        assert!(matches!(by_topic, DeadLetters::Broker { topic } if topic == "dlq.orders"));
        assert!(matches!(good(&[ALL]).dead_letters, DeadLetters::None));
        let off = good(&[ALL, TOPIC, mode("none")]).dead_letters;
        assert!(matches!(off, DeadLetters::None));
    }

    #[test]
    fn our_own_letters_have_connects_defaults_and_a_producer_of_their_own() {
        let written = written(&[ALL, TOPIC, mode("sluice")]);
        assert_eq!(written.topic, "dlq.orders");
        assert_eq!(
            (written.replication_factor, written.context_headers),
            (3, false)
        );
        assert_eq!(
            written.producer.client.client_id,
            "connector-dlq-producer-orders"
        );
    }

    #[test]
    fn our_own_letters_are_as_they_are_asked_for() {
        let written = written(&[
            ALL,
            TOPIC,
            mode("SLUICE"),
            (DEAD_LETTER_REPLICATION, "1"),
            (DEAD_LETTER_HEADERS, "true"),
            ("producer.override.bootstrap.servers", "elsewhere:9092"),
        ]);
        assert_eq!(
            (written.replication_factor, written.context_headers),
            (1, true)
        );
        assert_eq!(
            written.producer.client.bootstrap_servers,
            ["elsewhere:9092"]
        );
    }

    #[test]
    fn without_tolerance_a_topic_is_only_noted() {
        let note = "has no effect here, because errors.tolerance is none";
        assert_eq!(noted(&[TOPIC]), format!("{DEAD_LETTER_TOPIC}: {note}"));
        assert!(matches!(good(&[TOPIC]).dead_letters, DeadLetters::None));
        let sluice = [TOPIC, mode("sluice")];
        assert_eq!(noted(&sluice), format!("{DEAD_LETTER_MODE}: {note}"));
        let broker = [TOPIC, mode("broker")];
        assert!(noted(&broker).contains("whose delivery attempts are used up"));
        assert!(matches!(
            good(&broker).dead_letters,
            DeadLetters::Broker { .. }
        ));
    }

    #[test]
    fn a_mode_without_a_topic_is_refused_with_the_remedy() {
        for of in ["broker", "sluice"] {
            assert_eq!(
                faults(&[ALL, mode(of)]),
                format!(
                    "{DEAD_LETTER_TOPIC}: is required by {DEAD_LETTER_MODE}={of} and not set; name a topic, or set the mode to none"
                )
            );
        }
    }

    #[test]
    fn letters_do_not_come_back_to_their_connector() {
        for of in ["broker", "sluice"] {
            let fault = faults(&[ALL, mode(of), (DEAD_LETTER_TOPIC, "orders")]);
            assert!(
                fault.starts_with("errors.deadletterqueue.topic.name: orders is read"),
                "{fault}"
            );
        }
        let elsewhere = ("producer.override.bootstrap.servers", "elsewhere:9092");
        written(&[
            ALL,
            mode("sluice"),
            elsewhere,
            (DEAD_LETTER_TOPIC, "orders"),
        ]);
    }

    #[test]
    fn a_topic_that_no_broker_takes_is_refused() {
        for bad in ["a b", "__letters"] {
            let fault = faults(&[ALL, (DEAD_LETTER_TOPIC, bad)]);
            assert!(fault.contains("is no name for it"), "{fault}");
        }
    }

    #[test]
    fn what_only_our_own_letters_have_is_noted_for_others() {
        let headers = (DEAD_LETTER_HEADERS, "true");
        assert_eq!(
            noted(&[ALL, TOPIC, headers]),
            "errors.deadletterqueue.context.headers.enable: has no effect here, because \
             errors.deadletterqueue.mode is broker, not sluice"
        );
        assert_eq!(noted(&[ALL, TOPIC, headers, mode("sluice")]), "");
    }

    #[test]
    fn a_producers_settings_have_effect_where_it_writes_letters() {
        let linger = ("producer.override.linger.ms", "1");
        assert!(noted(&[ALL, linger]).contains("this connector writes nothing to Kafka"));
        assert_eq!(noted(&[ALL, TOPIC, linger, mode("sluice")]), "");
    }
}
