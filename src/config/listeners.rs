//! Where REST listens.

use std::fmt;
use std::net::IpAddr;

/// One address of `listeners`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// `None`: on all interfaces.
    pub host: Option<String>,
    /// 0: any that is free.
    pub port: u16,
}

impl Listener {
    /// `http://host:port`; without a host it is all interfaces, as in Connect.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text
            .split_once("://")
            .ok_or_else(|| format!("{text:?} is not http://host:port"))?;
        if scheme.eq_ignore_ascii_case("https") {
            return Err(format!(
                "{text:?}: https is still to come; use http behind a proxy that ends TLS"
            ));
        }
        let address = rest.trim_end_matches('/').rsplit_once(':');
        let (host, port) = address
            .filter(|_| scheme.eq_ignore_ascii_case("http"))
            .ok_or_else(|| format!("{text:?} is not http://host:port"))?;
        let port = port
            .parse()
            .map_err(|_| format!("{port:?} in {text:?} is not a port"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Ok(Self {
            host: (!host.is_empty()).then(|| host.to_owned()),
            port,
        })
    }

    /// Its address for who is on the same machine: no interface of its own if
    /// it has all of them.
    #[must_use]
    pub fn url_on_this_machine(&self) -> String {
        let host = self.host.as_deref().unwrap_or("0.0.0.0");
        let host = match host.parse() {
            Ok(IpAddr::V4(address)) if address.is_unspecified() => "127.0.0.1".to_owned(),
            Ok(IpAddr::V6(address)) if address.is_unspecified() => "[::1]".to_owned(),
            Ok(IpAddr::V6(address)) => format!("[{address}]"),
            Ok(IpAddr::V4(_)) | Err(_) => host.to_owned(),
        };
        format!("http://{host}:{}", self.port)
    }
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.host.as_deref().unwrap_or_default();
        write!(f, "http://{host}:{}", self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_a_host_or_all_interfaces_and_a_port() {
        let parsed = |text| Listener::parse(text).unwrap();
        let listener = |host: Option<&str>, port| Listener {
            host: host.map(str::to_owned),
            port,
        };
        assert_eq!(parsed("http://:8083"), listener(None, 8083));
        assert_eq!(parsed("HTTP://a.b:1/"), listener(Some("a.b"), 1));
        assert_eq!(parsed("http://[::1]:0"), listener(Some("::1"), 0));
    }

    #[test]
    fn what_is_no_listener_is_refused_with_a_word() {
        for (text, word) in [
            ("https://:8443", "https is still to come"),
            ("localhost:8083", "is not http://host:port"),
            ("ftp://a:1", "is not http://host:port"),
            ("http://a", "is not http://host:port"),
            ("http://a:99999", "is not a port"),
        ] {
            let error = Listener::parse(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
