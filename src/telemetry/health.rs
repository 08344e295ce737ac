//! The health of a worker as a whole.

use super::sight::{ConnectorSight, Standing};

/// The worker as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    Healthy,
    Starting,
    Unhealthy,
}

impl Health {
    /// One bad connector leaves the others at work; the worker is unhealthy
    /// only when none is left.
    #[must_use]
    pub fn of(standings: impl Iterator<Item = Standing>) -> Self {
        let mut health = Self::Unhealthy;
        for standing in standings {
            match standing {
                Standing::Coming(_) => return Self::Starting,
                Standing::Ready => health = Self::Healthy,
                Standing::Bad(_) => {}
            }
        }
        health
    }

    /// Whether a rollout may go on.
    #[must_use]
    pub fn readiness(connectors: &[ConnectorSight]) -> Self {
        Self::of(connectors.iter().map(ConnectorSight::readiness))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health_of(standings: &[Standing]) -> Health {
        Health::of(standings.iter().cloned())
    }

    #[test]
    fn one_bad_connector_does_not_make_the_worker_unready() {
        let bad = || Standing::Bad("gone".into());
        let coming = || Standing::Coming("joins");
        assert_eq!(health_of(&[Standing::Ready, bad()]), Health::Healthy);
        assert_eq!(health_of(&[Standing::Ready, coming()]), Health::Starting);
        assert_eq!(health_of(&[bad(), coming()]), Health::Starting);
        assert_eq!(health_of(&[bad(), bad()]), Health::Unhealthy);
        assert_eq!(health_of(&[]), Health::Unhealthy);
    }
}
