//! Plugins and layers for tests.

#[path = "../../tests/config/plugins.rs"]
mod plugins;

use super::layers::Layer;
pub(crate) use plugins::PLUGINS;

pub(crate) fn layer(pairs: &[(&str, &str)]) -> Layer {
    let pairs = pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    Layer::of(pairs.collect(), "file test")
}
