//! Real Kafka, real workers and counting for tests.
