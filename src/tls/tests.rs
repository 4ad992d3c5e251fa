//! Tests of options: which certificate a client gets, which certificates are accepted, and what is wrong with files.

use super::client::{ClientOptions, TlsClient};
use super::development::{Authority, Issued, Request, self_signed};
use super::pem::Source;
use super::server::{MinVersion, ServerOptions, TlsServer};
use super::session::Session;
use super::testing::{any_certificate, authority, client_options, drain, identity, joined, request, server_options};
use super::testing::{configured, parsed, shake};
use super::{Identity, TlsError};
use rustls::SignatureScheme;
use sha2::{Digest, Sha256};
use std::io::IoSlice;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};
use x509_cert::der::Encode;

/// A certificate and its key for a.example, with RSA.
const RSA: &str = include_str!("tests/rsa.pem");

/// Connects to `host`. Returns the names in the certificate that the client got, and whether the session was resumed.
fn names(client: &TlsClient, server: &TlsServer, host: &str) -> Result<(Vec<String>, bool), [Option<TlsError>; 2]> {
    let (mut client, mut server) = joined(client.session(Some(host)).unwrap(), server.session().unwrap());
    shake(&mut client, &mut server)?;
    server.send_pieces(&[IoSlice::new(b"the client gets its ticket")]).unwrap();
    drain(&mut client, 100).unwrap();
    let found = client.describe().unwrap();
    Ok((found.peer.unwrap().names, found.resumed))
}

/// Returns the text of the client's error, and that of the server's.
fn errors(client: &ClientOptions, server: &ServerOptions, host: &str) -> [String; 2] {
    let (client, server) = (TlsClient::new(client).unwrap(), TlsServer::new(server.clone()).unwrap());
    let errors = names(&client, &server, host).expect_err("the handshake fails");
    errors.map(|error| error.map_or(String::new(), |error| error.to_string()))
}

fn problem<T>(made: Result<T, TlsError>) -> String {
    made.err().expect("an error").to_string()
}

/// Returns the digest of the key of a certificate.
fn pin(certificate: &str) -> [u8; 32] {
    Sha256::digest(parsed(certificate).tbs_certificate().subject_public_key_info().to_der().unwrap()).into()
}

// Which certificate a client gets ------------------------------------------------------------------------------------

#[test]
fn a_client_gets_the_certificate_for_its_name() {
    let (authority, trusted) = authority();
    let sites: [&[&str]; 4] =
        [&["default.example"], &["*.Wild.example", "wild.example"], &["a.wild.example"], &["b.example", "c.example"]];
    let all = sites.iter().map(|names| identity(&authority.issue(&request(names)).unwrap())).collect();
    let server = TlsServer::new(server_options(all)).unwrap();
    let mut options = client_options(&trusted);
    options.skips_verification = true;
    let client = TlsClient::new(&options).unwrap();
    for (host, expected) in [
        ("default.example", 0),
        ("a.wild.example", 2),
        ("A.WILD.example", 2),
        ("other.wild.example", 1),
        ("wild.example", 1),
        ("a.b.wild.example", 0),
        ("b.example", 3),
        ("c.example", 3),
        ("unknown.example", 0),
        ("127.0.0.1", 0),
    ] {
        let (got, _) = names(&client, &server, host).unwrap();
        let expected: Vec<String> = sites[expected].iter().map(|&name| name.to_owned()).collect();
        assert_eq!(got, expected, "{host}");
    }
}

/// Returns a session of a client that supports only this signature scheme.
fn session_with(scheme: SignatureScheme) -> Session {
    let mut config = rustls::ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(any_certificate(&[scheme]))
        .with_no_client_auth();
    config.resumption = rustls::client::Resumption::disabled();
    let name = "a.example".try_into().unwrap();
    Session::new(rustls::ClientConnection::new(config.into(), name).unwrap().into())
}

#[test]
fn a_client_gets_a_kind_of_key_that_it_supports() {
    let (authority, _) = authority();
    let rsa = Identity { chain: Source::of(RSA.as_bytes()), key: Source::of(RSA.as_bytes()) };
    let ecdsa = identity(&authority.issue(&request(&["a.example", "ecdsa.example"])).unwrap());
    for order in [[rsa.clone(), ecdsa.clone()], [ecdsa, rsa]] {
        let server = TlsServer::new(server_options(order.to_vec())).unwrap();
        for (scheme, kind) in [(SignatureScheme::RSA_PSS_SHA256, 1), (SignatureScheme::ECDSA_NISTP256_SHA256, 2)] {
            let (mut client, mut server) = joined(session_with(scheme), server.session().unwrap());
            shake(&mut client, &mut server).unwrap();
            assert_eq!(client.describe().unwrap().peer.unwrap().names.len(), kind, "{scheme:?}");
        }
    }
}

// Regression: the client got the alert access_denied.
#[test]
fn a_client_that_supports_no_certificate_is_refused_for_that_reason() {
    let (authority, _) = authority();
    let ecdsa = identity(&authority.issue(&request(&["a.example"])).unwrap());
    let server = TlsServer::new(server_options(vec![ecdsa])).unwrap();
    let session = session_with(SignatureScheme::RSA_PSS_SHA256);
    let (mut client, mut server) = joined(session, server.session().unwrap());
    let errors = shake(&mut client, &mut server).unwrap_err();
    let [on_client, on_server] = errors.map(|error| error.expect("an error").to_string());
    assert_eq!(on_server, "the peer supports no common signature scheme");
    let refused = "the peer refused the connection: there are no common parameters, or a certificate is missing";
    assert_eq!(on_client, refused);
}

// Certificates that a client refuses ---------------------------------------------------------------------------------

fn dated(from: i64, until: i64) -> Request {
    Request { from: from * 86400, until: until * 86400, ..request(&["a.example"]) }
}

#[test]
fn a_client_says_what_is_wrong_with_a_certificate() {
    let (authority, trusted) = authority();
    let other = Authority::new("other authority", 1).unwrap();
    let (intermediate, _) = authority.intermediate("intermediate");
    let good = dated(0, 1);
    for (issued, host, expected, alert) in [
        (
            authority.issue(&dated(-10, -3)),
            "a.example",
            "certificate expired 3 days ago",
            "our certificate has expired",
        ),
        (
            authority.issue(&Request { from: 86400 + 3600, until: 2 * 86400, ..good.clone() }),
            "a.example",
            "certificate is not valid yet: it becomes valid in 1 day",
            "our certificate has expired",
        ),
        (
            authority.issue(&good),
            "b.example",
            "name does not match: b.example expected, the certificate has a.example",
            "our certificate is invalid",
        ),
        (
            self_signed(&good),
            "a.example",
            "certificate is self-signed, and is not one of the trusted certificates",
            "it does not accept our certificate",
        ),
        (
            other.issue(&good),
            "a.example",
            "certificate was issued by an unknown authority, 'other authority', and the server has sent no intermediate \
             certificate",
            "it does not accept our certificate",
        ),
        (
            intermediate.issue(&good),
            "a.example",
            "certificate was issued by an unknown authority, 'intermediate', and the server has sent no intermediate \
             certificate",
            "it does not accept our certificate",
        ),
    ] {
        let server = server_options(vec![identity(&issued.unwrap())]);
        let [on_client, on_server] = errors(&client_options(&trusted), &server, host);
        assert_eq!(on_client, expected);
        assert_eq!(on_server, format!("the peer refused the connection: {alert}"));
        let mut any = client_options(&trusted);
        any.skips_verification = true;
        let (client, server) = (TlsClient::new(&any).unwrap(), TlsServer::new(server).unwrap());
        names(&client, &server, host).expect("a client without verification accepts any certificate");
    }
}

/// Returns an identity with its intermediate certificate, and this certificate.
fn with_intermediate(authority: &Authority) -> (Identity, Issued, String) {
    let (intermediate, certificate) = authority.intermediate("intermediate");
    let issued = intermediate.issue(&request(&["a.example"])).unwrap();
    let chain = format!("{}{certificate}", issued.certificate);
    let identity = Identity { chain: Source::of(chain.as_bytes()), key: Source::of(issued.key.as_bytes()) };
    (identity, issued, certificate)
}

#[test]
fn a_chain_with_its_intermediate_certificate_is_accepted() {
    let (authority, trusted) = authority();
    let (identity, ..) = with_intermediate(&authority);
    let (client, server) = (client_options(&trusted), server_options(vec![identity]));
    let (client, server) = (TlsClient::new(&client).unwrap(), TlsServer::new(server).unwrap());
    assert_eq!(names(&client, &server, "a.example").unwrap().0, ["a.example"]);
}

#[test]
fn a_revoked_certificate_is_refused() {
    let (authority, trusted) = authority();
    let [one, other] = [(); 2].map(|()| authority.issue(&request(&["a.example"])).unwrap());
    let mut options = client_options(&trusted);
    options.crl = vec![Source::of(authority.revocation_list(&[&one.certificate]).as_bytes())];
    let [on_client, _] = errors(&options, &server_options(vec![identity(&one)]), "a.example");
    assert_eq!(on_client, "certificate was revoked");
    let server = TlsServer::new(server_options(vec![identity(&other)])).unwrap();
    names(&TlsClient::new(&options).unwrap(), &server, "a.example").unwrap();
}

#[test]
fn a_pinned_key_must_be_in_the_chain() {
    let (authority, trusted) = authority();
    let (identity, issued, intermediate) = with_intermediate(&authority);
    let server = TlsServer::new(server_options(vec![identity.clone()])).unwrap();
    for pinned in [&issued.certificate, &intermediate, &authority.certificate()] {
        let mut options = client_options(&trusted);
        options.pins = vec![[7; 32], pin(pinned)];
        names(&TlsClient::new(&options).unwrap(), &server, "a.example").unwrap();
    }
    let mut options = client_options(&trusted);
    options.pins = vec![[7; 32]];
    let [on_client, _] = errors(&options, &server_options(vec![identity]), "a.example");
    assert_eq!(on_client, "no key of the certificate's chain is pinned");
}

// Regression: the pins were compared with the certificates that the server sends, so any server with a trusted
// certificate could satisfy a pin by sending a further certificate that is not part of its chain.
#[test]
fn a_pinned_certificate_beside_the_chain_is_not_enough() {
    let (authority, trusted) = authority();
    let (_, issued, intermediate) = with_intermediate(&authority);
    let attacker = authority.issue(&request(&["a.example"])).unwrap();
    for beside in [&issued.certificate, &intermediate] {
        let chain = format!("{}{beside}", attacker.certificate);
        let identity = Identity { chain: Source::of(chain.as_bytes()), key: Source::of(attacker.key.as_bytes()) };
        let mut options = client_options(&trusted);
        options.pins = vec![pin(beside)];
        let [on_client, _] = errors(&options, &server_options(vec![identity]), "a.example");
        assert_eq!(on_client, "no key of the certificate's chain is pinned");
    }
}

#[test]
fn without_verification_the_pin_must_be_that_of_the_server() {
    let (authority, trusted) = authority();
    let (identity, issued, intermediate) = with_intermediate(&authority);
    let mut options = client_options(&trusted);
    options.skips_verification = true;
    options.pins = vec![pin(&intermediate)];
    let [on_client, _] = errors(&options, &server_options(vec![identity.clone()]), "other.example");
    assert_eq!(on_client, "no key of the certificate's chain is pinned");
    options.pins = vec![pin(&issued.certificate)];
    let server = TlsServer::new(server_options(vec![identity])).unwrap();
    names(&TlsClient::new(&options).unwrap(), &server, "other.example").unwrap();
}

// Mutual TLS ---------------------------------------------------------------------------------------------------------

#[test]
fn a_server_verifies_the_certificates_of_clients() {
    let (authority, trusted) = authority();
    let site = identity(&authority.issue(&request(&["a.example"])).unwrap());
    let [member, revoked] = [(); 2].map(|()| authority.issue(&request(&["member"])).unwrap());
    let stranger = Authority::new("stranger", 1).unwrap().issue(&request(&["member"])).unwrap();
    let mut options = server_options(vec![site]);
    options.client_ca = vec![trusted.clone()];
    options.crl = vec![Source::of(authority.revocation_list(&[&revoked.certificate]).as_bytes())];
    let with = |issued: Option<&Issued>| ClientOptions { identity: issued.map(identity), ..client_options(&trusted) };
    let refused = |issued: Option<&Issued>| {
        let [_, on_server] = errors(&with(issued), &options, "a.example");
        on_server
    };
    assert_eq!(refused(None), "the peer has sent no certificate");
    assert_eq!(refused(Some(&revoked)), "certificate was revoked");
    assert_eq!(refused(Some(&stranger)), "certificate was issued by an unknown authority");
    for client_optional in [false, true] {
        options.client_optional = client_optional;
        let server = TlsServer::new(options.clone()).unwrap();
        let client = TlsClient::new(&with(Some(&member))).unwrap();
        let (mut client, mut server) = joined(client.session(Some("a.example")).unwrap(), server.session().unwrap());
        shake(&mut client, &mut server).unwrap();
        let peer = server.describe().unwrap().peer.expect("a certificate");
        assert_eq!((peer.subject.as_str(), peer.issuer.as_str()), ("CN=member", "CN=test authority"));
    }
    let (client, server) = (TlsClient::new(&with(None)).unwrap(), TlsServer::new(options.clone()).unwrap());
    names(&client, &server, "a.example").expect("certificates are optional");
}

// Sessions -----------------------------------------------------------------------------------------------------------

#[test]
fn servers_share_tickets_only_if_they_have_the_same_options() {
    let (authority, trusted) = authority();
    let site = identity(&authority.issue(&request(&["a.example"])).unwrap());
    let options = server_options(vec![site]);
    let mut with_client_ca = options.clone();
    with_client_ca.client_ca = vec![trusted.clone()];
    with_client_ca.client_optional = true;
    let client = TlsClient::new(&client_options(&trusted)).unwrap();
    let [one, same] = [(); 2].map(|()| TlsServer::new(options.clone()).unwrap());
    let other = TlsServer::new(with_client_ca).unwrap();
    assert!(!names(&client, &one, "a.example").unwrap().1);
    assert!(names(&client, &one, "a.example").unwrap().1);
    assert!(names(&client, &same, "a.example").unwrap().1);
    assert!(!names(&client, &other, "a.example").unwrap().1);
}

#[test]
fn clients_do_not_share_sessions() {
    let (_, server) = configured();
    let (client, _) = configured();
    let mut options = client_options(&authority().1);
    options.skips_verification = true;
    drop(client);
    let [one, other] = [(); 2].map(|()| TlsClient::new(&options).unwrap());
    assert!(!names(&one, &server, "localhost").unwrap().1);
    assert!(names(&one, &server, "localhost").unwrap().1);
    assert!(!names(&other, &server, "localhost").unwrap().1);
}

/// A file that is removed at the end of the test.
struct File(PathBuf);

impl File {
    fn new(name: &str, content: &str) -> File {
        let path = std::env::temp_dir().join(format!("lio-tls-{}-{name}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        File(path)
    }

    /// Replaces the content, so that the time of the last change is different.
    fn write(&self, content: &str, seconds: u64) {
        std::fs::write(&self.0, content).unwrap();
        let file = std::fs::File::options().write(true).open(&self.0).unwrap();
        file.set_modified(SystemTime::now() + Duration::from_secs(seconds)).unwrap();
    }

    fn source(&self) -> Source {
        Source::File(self.0.clone())
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

// Regression: the keys of the tickets did not depend on the content of the files, so a client whose certificate was
// revoked could resume its session for hours.
#[test]
fn a_client_that_is_revoked_cannot_resume_its_session() {
    let (authority, trusted) = authority();
    let site = identity(&authority.issue(&request(&["a.example"])).unwrap());
    let member = authority.issue(&request(&["member"])).unwrap();
    let list = File::new("revoked", &authority.revocation_list(&[]));
    let mut options = server_options(vec![site]);
    options.client_ca = vec![trusted.clone()];
    options.crl = vec![list.source()];
    let server = TlsServer::new(options).unwrap();
    let options = ClientOptions { identity: Some(identity(&member)), ..client_options(&trusted) };
    let client = TlsClient::new(&options).unwrap();
    assert!(!names(&client, &server, "a.example").unwrap().1);
    assert!(names(&client, &server, "a.example").unwrap().1);
    list.write(&authority.revocation_list(&[&member.certificate]), 0);
    server.reload().unwrap();
    let [_, on_server] = names(&client, &server, "a.example").expect_err("the certificate was revoked");
    assert_eq!(on_server.unwrap().to_string(), "certificate was revoked");
}

#[test]
fn files_that_have_changed_are_read_again() {
    let (authority, trusted) = authority();
    let [one, other] =
        [&["a.example"][..], &["a.example", "b.example"]].map(|names| authority.issue(&request(names)).unwrap());
    let (chain, key) = (File::new("chain", &one.certificate), File::new("key", &one.key));
    let options = server_options(vec![Identity { chain: chain.source(), key: key.source() }]);
    let server = TlsServer::new(options).unwrap();
    let count = || {
        let client = TlsClient::new(&client_options(&trusted)).unwrap();
        names(&client, &server, "a.example").unwrap().0.len()
    };
    chain.write(&other.certificate, 10);
    assert_eq!(server.reload_if_changed(), Ok(false), "the files were checked a moment ago");
    server.set_check_interval(Duration::ZERO);
    let text = problem(server.reload_if_changed());
    assert!(text.ends_with(": the key does not belong to the certificate"), "{text}");
    assert_eq!(server.reload_if_changed(), Ok(false), "a wrong file is not read again until it changes");
    assert_eq!(count(), 1, "the server keeps its certificate");
    key.write(&other.key, 20);
    assert_eq!(server.reload_if_changed(), Ok(true));
    assert_eq!(count(), 2);
    assert_eq!(server.reload_if_changed(), Ok(false));
    std::fs::remove_file(&key.0).unwrap();
    let text = problem(server.reload_if_changed());
    assert!(text.ends_with(": No such file or directory (os error 2)"), "{text}");
    assert_eq!(count(), 2);
}

// Files --------------------------------------------------------------------------------------------------------------

#[test]
fn an_error_names_the_file_and_what_is_wrong() {
    let (authority, _) = authority();
    let [one, other] = [(); 2].map(|()| authority.issue(&request(&["a.example"])).unwrap());
    let load = |chain: &str, key: &str| {
        let identity = Identity { chain: Source::of(chain.as_bytes()), key: Source::of(key.as_bytes()) };
        problem(TlsServer::new(server_options(vec![identity])))
    };
    let missing = "cert '/no/such.pem': No such file or directory (os error 2)";
    assert_eq!(load("/no/such.pem", &one.key), missing);
    assert_eq!(load(&one.certificate, "/no/such.pem"), missing.replace("cert", "key"));
    assert_eq!(load("/tmp", &one.key), "cert '/tmp': not a file");
    assert_eq!(load(&one.key, &one.key), "cert: there is no certificate in PEM");
    assert_eq!(load(&one.certificate, &one.certificate), "key: there is no private key in PEM");
    assert_eq!(load(&one.certificate, &other.key), "key: the key does not belong to the certificate");
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMAA=\n-----END ENCRYPTED PRIVATE KEY-----\n";
    assert_eq!(
        load(&one.certificate, encrypted),
        "key: the key is encrypted; decrypt it first, for example with `openssl pkey`"
    );
    let old = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nMAA=\n\
               -----END RSA PRIVATE KEY-----\n";
    assert_eq!(
        load(&one.certificate, old),
        "key: the key is encrypted; decrypt it first, for example with `openssl pkey`"
    );
    let file = File::new("text", "no PEM");
    let path = file.0.to_str().unwrap();
    assert_eq!(load(path, &one.key), format!("cert '{path}': there is no certificate in PEM"));
    let nonsense = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
    assert!(load(nonsense, &one.key).starts_with("cert: "), "{}", load(nonsense, &one.key));
    let cut = &one.certificate[..200];
    assert!(load(cut, &one.key).starts_with("cert: "), "{}", load(cut, &one.key));
}

#[test]
fn an_error_names_the_option_of_authorities_and_lists() {
    let (authority, trusted) = authority();
    let mut options = client_options(&Source::of(b"/no/such.pem"));
    assert_eq!(problem(TlsClient::new(&options)), "ca '/no/such.pem': No such file or directory (os error 2)");
    options.ca = vec![trusted.clone()];
    options.crl = vec![trusted.clone()];
    assert_eq!(problem(TlsClient::new(&options)), "crl: there is no revocation list (X509 CRL) in PEM");
    let mut options = server_options(vec![identity(&authority.issue(&request(&["a.example"])).unwrap())]);
    options.version = MinVersion::Tls13;
    options.client_ca = vec![Source::of(b"/no/such.pem")];
    assert_eq!(problem(TlsServer::new(options)), "client_ca '/no/such.pem': No such file or directory (os error 2)");
}
