//! Errors of TLS, described for users: what is wrong, and with which certificate or version.

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, InvalidMessage, PeerIncompatible};
use std::fmt;
use std::io;
use std::time::Duration;

/// An error of TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsError(Box<str>);

impl TlsError {
    /// Returns an error with this description.
    pub(crate) fn new(text: impl Into<Box<str>>) -> TlsError {
        TlsError(text.into())
    }

    /// Returns the error of TLS that an I/O error contains; `None` for any other error.
    pub(crate) fn of(error: &io::Error) -> Option<&TlsError> {
        error.get_ref()?.downcast_ref()
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for TlsError {}

impl From<TlsError> for io::Error {
    fn from(error: TlsError) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, error)
    }
}

impl From<rustls::Error> for TlsError {
    fn from(error: rustls::Error) -> TlsError {
        TlsError(describe(&error).into())
    }
}

fn describe(error: &rustls::Error) -> String {
    use rustls::Error;
    match error {
        Error::InvalidCertificate(error) => describe_certificate(error),
        Error::AlertReceived(alert) => describe_alert(*alert),
        Error::PeerIncompatible(reason) => describe_incompatible(reason),
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => "the peer does not speak TLS".into(),
        Error::NoCertificatesPresented => "the peer has sent no certificate".into(),
        Error::NoApplicationProtocol => "the peer supports none of the protocols offered with ALPN".into(),
        Error::DecryptError => "a record was corrupted".into(),
        Error::PeerSentOversizedRecord => "a record is too long".into(),
        other => other.to_string(),
    }
}

fn describe_certificate(error: &CertificateError) -> String {
    use CertificateError as Problem;
    match error {
        Problem::Expired => "certificate expired".into(),
        Problem::ExpiredContext { time, not_after } => {
            format!("certificate expired {} ago", between(*not_after, *time))
        }
        Problem::NotValidYet => "certificate is not valid yet".into(),
        Problem::NotValidYetContext { time, not_before } => {
            format!("certificate is not valid yet: it becomes valid in {}", between(*time, *not_before))
        }
        Problem::NotValidForName => "name does not match the certificate".into(),
        Problem::NotValidForNameContext { expected, presented } => {
            let names: Vec<&str> = presented.iter().map(|name| bare_name(name)).collect();
            let names = if names.is_empty() { "no name".into() } else { names.join(", ") };
            format!("name does not match: {} expected, the certificate has {names}", expected.to_str())
        }
        Problem::UnknownIssuer => "certificate was issued by an unknown authority".into(),
        Problem::Revoked => "certificate was revoked".into(),
        Problem::BadSignature => "certificate has an invalid signature".into(),
        Problem::BadEncoding => "certificate has an invalid encoding".into(),
        Problem::UnknownRevocationStatus => "no revocation list covers the certificate".into(),
        Problem::ExpiredRevocationList => "the revocation list has expired".into(),
        Problem::ExpiredRevocationListContext { time, next_update } => {
            format!("the revocation list expired {} ago", between(*next_update, *time))
        }
        Problem::InvalidPurpose | Problem::InvalidPurposeContext { .. } => {
            "certificate must not be used for this side of a connection".into()
        }
        Problem::ApplicationVerificationFailure => "certificate was refused".into(),
        Problem::Other(other) => other.to_string(),
        other => format!("certificate is invalid: {other}"),
    }
}

/// Returns the name from a text such as `DnsName("a.example")`, which rustls reports.
fn bare_name(presented: &str) -> &str {
    let inner = presented.split_once('(').map_or(presented, |(_, inner)| inner);
    inner.trim_end_matches(')').trim_matches('"')
}

/// Returns the time between two moments in the largest fitting unit, such as `3 days`.
fn between(from: UnixTime, to: UnixTime) -> String {
    let seconds = Duration::from_secs(to.as_secs().saturating_sub(from.as_secs())).as_secs();
    let (count, unit) = match seconds {
        0..60 => (seconds, "second"),
        60..3600 => (seconds / 60, "minute"),
        3600..86400 => (seconds / 3600, "hour"),
        _ => (seconds / 86400, "day"),
    };
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

fn describe_alert(alert: AlertDescription) -> String {
    let what = match alert {
        AlertDescription::UnknownCA => "it does not trust the authority that issued our certificate",
        AlertDescription::CertificateRequired => "it requires a certificate",
        AlertDescription::BadCertificate => "our certificate is invalid",
        AlertDescription::CertificateExpired => "our certificate has expired",
        AlertDescription::CertificateRevoked => "our certificate was revoked",
        AlertDescription::CertificateUnknown => "it does not accept our certificate",
        AlertDescription::UnsupportedCertificate => "it does not support our kind of certificate",
        AlertDescription::ProtocolVersion => "it supports no common version of TLS",
        AlertDescription::HandshakeFailure => "there are no common parameters, or a certificate is missing",
        AlertDescription::InsufficientSecurity => "our parameters are too weak for it",
        AlertDescription::UnrecognisedName => "it does not know the requested name",
        AlertDescription::NoApplicationProtocol => "it supports none of our protocols (ALPN)",
        AlertDescription::BadRecordMac | AlertDescription::DecryptError => "it could not decrypt a message",
        AlertDescription::AccessDenied => "it denies access",
        other => return format!("the peer has ended the connection: alert {other:?}"),
    };
    format!("the peer refused the connection: {what}")
}

fn describe_incompatible(reason: &PeerIncompatible) -> String {
    use PeerIncompatible as Reason;
    match reason {
        Reason::ServerDoesNotSupportTls12Or13
        | Reason::SupportedVersionsExtensionRequired
        | Reason::Tls12NotOffered
        | Reason::Tls12NotOfferedOrEnabled
        | Reason::Tls13RequiredForQuic
        | Reason::ServerTlsVersionIsDisabledByOurConfig => "the peer supports no common version of TLS".into(),
        Reason::NoCipherSuitesInCommon => "the peer supports no common cipher suite".into(),
        Reason::NoKxGroupsInCommon | Reason::NoEcPointFormatsInCommon | Reason::NamedGroupsExtensionRequired => {
            "the peer supports no common group for the key exchange".into()
        }
        Reason::NoCertificateRequestSignatureSchemesInCommon | Reason::NoSignatureSchemesInCommon => {
            "the peer supports no common signature scheme".into()
        }
        other => format!("the peer is incompatible: {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::ServerName;

    fn at(seconds: u64) -> UnixTime {
        UnixTime::since_unix_epoch(Duration::from_secs(seconds))
    }

    fn text(error: CertificateError) -> String {
        TlsError::from(rustls::Error::InvalidCertificate(error)).to_string()
    }

    #[test]
    fn a_certificate_error_says_what_is_wrong() {
        let expired = |seconds: u64| {
            text(CertificateError::ExpiredContext { time: at(1_000_000 + seconds), not_after: at(1_000_000) })
        };
        assert_eq!(expired(3 * 86400), "certificate expired 3 days ago");
        assert_eq!(expired(86400), "certificate expired 1 day ago");
        assert_eq!(expired(7200), "certificate expired 2 hours ago");
        assert_eq!(expired(61), "certificate expired 1 minute ago");
        let early = CertificateError::NotValidYetContext { time: at(0), not_before: at(5) };
        assert_eq!(text(early), "certificate is not valid yet: it becomes valid in 5 seconds");
        let name = CertificateError::NotValidForNameContext {
            expected: ServerName::try_from("b.example").unwrap(),
            presented: vec!["DnsName(\"a.example\")".into(), "IpAddress(127.0.0.1)".into()],
        };
        assert_eq!(text(name), "name does not match: b.example expected, the certificate has a.example, 127.0.0.1");
    }

    #[test]
    fn an_io_error_carries_the_error() {
        let error = io::Error::from(TlsError::new("certificate was revoked"));
        assert_eq!(TlsError::of(&error), Some(&TlsError::new("certificate was revoked")));
        assert_eq!(TlsError::of(&io::ErrorKind::NotConnected.into()), None);
    }
}
