//! TLS 1.3 over a stream: the sender is its client, the receiver its server.
//!
//! It protects nothing: the client takes any key, since the token has proved the peer already, and
//! the key is made for this connection and thrown away. It is the work that is wanted. There are
//! no session tickets, which nobody would read, and no `close_notify`: a stream ends with the FIN
//! of TCP here, encoded or not.

use std::io::{self, Read, Write};
use std::sync::Arc;

use redoline_proto::encoding::TlsCipher;
use redoline_proto::units::Bytes;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use rustls::client::UnbufferedClientConnection;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::cipher_suite::{
    TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
};
use rustls::crypto::ring::{default_provider, sign::any_ecdsa_type};
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer,
    UnixTime,
};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, UnbufferedServerConnection};
use rustls::sign::CertifiedKey;
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::version::TLS13;
use rustls::{
    ClientConfig, DigitallySignedStruct, ServerConfig, SignatureScheme, SupportedCipherSuite,
};

use super::agreement::{Line, OpenError};
use super::buffers::{Inbox, Outbox};

/// Encrypted and written at a time: eight records, which stay in the processor's cache.
const WRITE_BYTES: usize = 128 * Bytes::KIB as usize;

/// The most that `WRITE_BYTES` are when encrypted: a record of 16 KiB has 22 bytes more (RFC 8446,
/// section 5.2), and an update of the keys may go ahead.
const WRITE_ROOM: usize = WRITE_BYTES + 1024;

/// Room to read into; at least a record must fit.
const READ_BYTES: usize = 256 * Bytes::KIB as usize;

/// Why this end could not encrypt, for which the other end can do nothing.
#[derive(Debug, thiserror::Error)]
#[error("TLS cannot encrypt")]
pub struct NotEncrypted(#[source] Box<dyn std::error::Error + Send + Sync>);

impl NotEncrypted {
    pub fn new(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(why.into())
    }
}

impl From<NotEncrypted> for io::Error {
    fn from(error: NotEncrypted) -> Self {
        Self::other(error)
    }
}

/// Encrypts.
pub struct TlsSender {
    connection: UnbufferedClientConnection,
    pub outbox: Outbox,
}

/// Decrypts.
pub struct TlsReceiver {
    connection: UnbufferedServerConnection,
    inbox: Inbox,
    /// Decrypted together with the end of the handshake, and not told yet.
    early: Vec<u8>,
}

impl TlsSender {
    /// Returns when the handshake is complete.
    pub fn open(cipher: TlsCipher, line: &Line<'_>) -> Result<Self, OpenError> {
        Self::with(suite(cipher), line)
    }

    fn with(suite: SupportedCipherSuite, line: &Line<'_>) -> Result<Self, OpenError> {
        let config = client_config(suite).map_err(OpenError::Tls)?;
        // Sent as no name, and proved by no certificate.
        let name = ServerName::IpAddress(std::net::Ipv4Addr::LOCALHOST.into());
        let mut connection =
            UnbufferedClientConnection::new(config.into(), name).map_err(OpenError::Tls)?;
        let mut inbox = Inbox::new(READ_BYTES);
        let mut answer = Vec::new();
        loop {
            let status = connection.process_tls_records(inbox.bytes());
            let step = take(status, &mut answer, &mut |_| {}).map_err(OpenError::Tls)?;
            if step.then == Then::Read && !connection.is_handshaking() {
                return Ok(Self { connection, outbox: Outbox::default() });
            }
            go_on(&step, &mut inbox, &mut answer, line)?;
        }
    }

    /// As `Encoder::write`.
    pub fn write(&mut self, socket: &mut impl Write, bytes: &[u8]) -> io::Result<usize> {
        if self.outbox.is_empty() {
            let bytes = &bytes[..bytes.len().min(WRITE_BYTES)];
            let len = self.encrypt(bytes)?;
            self.outbox.load(len, bytes.len());
        }
        self.outbox.write(socket)
    }

    fn encrypt(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let status = self.connection.process_tls_records(&mut []);
        match status.state.map_err(NotEncrypted::new)? {
            ConnectionState::WriteTraffic(mut traffic) => {
                let room = self.outbox.room(WRITE_ROOM);
                Ok(traffic.encrypt(bytes, room).map_err(NotEncrypted::new)?)
            }
            other => Err(NotEncrypted::new(format!("{other:?}")).into()),
        }
    }
}

impl TlsReceiver {
    /// Returns when the handshake is complete.
    pub fn open(cipher: TlsCipher, line: &Line<'_>) -> Result<Self, OpenError> {
        Self::with(suite(cipher), line)
    }

    fn with(suite: SupportedCipherSuite, line: &Line<'_>) -> Result<Self, OpenError> {
        let config = server_config(suite)?;
        let mut connection =
            UnbufferedServerConnection::new(config.into()).map_err(OpenError::Tls)?;
        let (mut inbox, mut early) = (Inbox::new(READ_BYTES), Vec::new());
        let mut answer = Vec::new();
        loop {
            let status = connection.process_tls_records(inbox.bytes());
            // The end of the handshake may be followed by the first of the payload at once.
            let step = take(status, &mut answer, &mut |payload| early.extend_from_slice(payload));
            let step = step.map_err(OpenError::Tls)?;
            if step.then == Then::Read && !connection.is_handshaking() {
                inbox.discard(step.discard);
                return Ok(Self { connection, inbox, early });
            }
            go_on(&step, &mut inbox, &mut answer, line)?;
        }
    }

    /// As `Decoder::read`: decrypts all records that are complete.
    pub fn read(
        &mut self,
        socket: &mut impl Read,
        mut each: impl FnMut(&[u8]),
    ) -> io::Result<usize> {
        let mut bytes = self.early.len();
        each(&std::mem::take(&mut self.early));
        loop {
            let status = self.connection.process_tls_records(self.inbox.bytes());
            // No answer: a sender does not ask for new keys of an end that sends nothing.
            let step = take(status, &mut Vec::new(), &mut |payload| {
                bytes += payload.len();
                each(payload);
            });
            let step = step.map_err(invalid)?;
            self.inbox.discard(step.discard);
            match step.then {
                Then::Again | Then::Transmit => {}
                Then::Read if bytes > 0 => return Ok(bytes),
                Then::Read => {
                    if self.inbox.fill(socket, READ_BYTES)? == 0 {
                        return match self.inbox.is_empty() {
                            true => Ok(0),
                            false => Err(io::ErrorKind::UnexpectedEof.into()),
                        };
                    }
                }
                Then::End => return Ok(bytes),
            }
        }
    }
}

/// What became of some bytes.
struct Step {
    /// Bytes that are done with.
    discard: usize,
    then: Then,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Then {
    Again,
    /// The answer leaves before anything else.
    Transmit,
    Read,
    End,
}

/// One step of a connection: `each` gets what is decrypted, and `answer` what is to be answered.
fn take<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    answer: &mut Vec<u8>,
    each: &mut impl FnMut(&[u8]),
) -> Result<Step, rustls::Error> {
    let mut discard = status.discard;
    let then = match status.state? {
        ConnectionState::ReadTraffic(mut traffic) => {
            while let Some(record) = traffic.next_record() {
                let record = record?;
                discard += record.discard;
                each(record.payload);
            }
            Then::Again
        }
        ConnectionState::EncodeTlsData(mut data) => {
            let start = answer.len();
            if let Err(EncodeError::InsufficientSize(size)) = data.encode(&mut []) {
                answer.resize(start + size.required_size, 0);
                data.encode(&mut answer[start..])
                    .map_err(|error| rustls::Error::General(error.to_string()))?;
            }
            Then::Again
        }
        ConnectionState::TransmitTlsData(data) => {
            data.done();
            Then::Transmit
        }
        ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_) => Then::Read,
        ConnectionState::PeerClosed | ConnectionState::Closed => Then::End,
        other => return Err(rustls::Error::General(format!("unexpected state {other:?}"))),
    };
    Ok(Step { discard, then })
}

/// During a handshake.
fn go_on(
    step: &Step,
    inbox: &mut Inbox,
    answer: &mut Vec<u8>,
    line: &Line<'_>,
) -> Result<(), OpenError> {
    inbox.discard(step.discard);
    match step.then {
        Then::Again => Ok(()),
        Then::Transmit => {
            line.write(answer)?;
            answer.clear();
            Ok(())
        }
        Then::Read => inbox.fill_from(line).map(drop),
        Then::End => Err(OpenError::Closed),
    }
}

impl Inbox {
    fn fill_from(&mut self, line: &Line<'_>) -> Result<usize, OpenError> {
        let mut read = LineReader { line, failed: None };
        let filled = self.fill(&mut read, READ_BYTES);
        match (filled, read.failed) {
            (_, Some(error)) => Err(error),
            (Ok(bytes), None) => Ok(bytes),
            (Err(error), None) => Err(OpenError::Socket(error)),
        }
    }
}

/// Keeps the error that `Read` has no room for.
struct LineReader<'a, 'b> {
    line: &'a Line<'b>,
    failed: Option<OpenError>,
}

impl Read for LineReader<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.line.read(buffer).or_else(|error| {
            self.failed = Some(error);
            Ok(0)
        })
    }
}

fn suite(cipher: TlsCipher) -> SupportedCipherSuite {
    match cipher {
        TlsCipher::Aes128Gcm => TLS13_AES_128_GCM_SHA256,
        TlsCipher::Aes256Gcm => TLS13_AES_256_GCM_SHA384,
        TlsCipher::Chacha20Poly1305 => TLS13_CHACHA20_POLY1305_SHA256,
    }
}

/// Nothing but this suite.
fn provider(suite: SupportedCipherSuite) -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider { cipher_suites: vec![suite], ..default_provider() })
}

fn client_config(suite: SupportedCipherSuite) -> Result<ClientConfig, rustls::Error> {
    let provider = provider(suite);
    let verifier = Arc::new(AnyKey(Arc::clone(&provider)));
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.resumption = rustls::client::Resumption::disabled();
    config.enable_sni = false;
    Ok(config)
}

/// With a key of its own, bare (RFC 7250): nobody would look at a certificate.
fn server_config(suite: SupportedCipherSuite) -> Result<ServerConfig, OpenError> {
    let random = ring::rand::SystemRandom::new();
    let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random)
        .map_err(|_| OpenError::Key)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.as_ref().to_vec()));
    let key = any_ecdsa_type(&key).map_err(OpenError::Tls)?;
    let public = key.public_key().ok_or(OpenError::Key)?;
    let public = CertificateDer::from(public.as_ref().to_vec());
    let key = CertifiedKey::new(vec![public], key);
    let mut config = ServerConfig::builder_with_provider(provider(suite))
        .with_protocol_versions(&[&TLS13])
        .map_err(OpenError::Tls)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::new(key))));
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// Takes any key that its holder can sign with.
#[derive(Debug)]
struct AnyKey(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyKey {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.2 is not used".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let key = SubjectPublicKeyInfoDer::from(cert.as_ref());
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &key, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

fn invalid(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use rustls::{CipherSuiteCommon, Tls13CipherSuite};

    use super::*;
    use crate::jobs::cancel::CancelFlag;

    /// As the real one, but its keys are good for so few records that a test gets past them.
    fn short_lived() -> SupportedCipherSuite {
        let suite = TLS13_AES_128_GCM_SHA256.tls13().unwrap();
        let (hkdf_provider, aead_alg, quic) = (suite.hkdf_provider, suite.aead_alg, suite.quic);
        let common = CipherSuiteCommon {
            suite: suite.common.suite,
            hash_provider: suite.common.hash_provider,
            confidentiality_limit: 10,
        };
        let suite = Tls13CipherSuite { common, hkdf_provider, aead_alg, quic };
        SupportedCipherSuite::Tls13(Box::leak(Box::new(suite)))
    }

    #[test]
    fn a_stream_that_outlives_its_keys_goes_on_with_new_ones() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let far = listener.accept().unwrap().0;
        let (sender, receiver) = thread::scope(|scope| {
            let receiver = scope.spawn(|| {
                TlsReceiver::with(short_lived(), &Line::new(&far, &CancelFlag::new())).unwrap()
            });
            let flag = CancelFlag::new();
            let sender = TlsSender::with(short_lived(), &Line::new(&near, &flag)).unwrap();
            (sender, receiver.join().unwrap())
        });
        let (mut sender, mut receiver) = (sender, receiver);
        let mut wire = Vec::new();
        let bytes = vec![7; WRITE_BYTES];
        for _ in 0..20 {
            assert_eq!(sender.write(&mut wire, &bytes).unwrap(), WRITE_BYTES);
        }
        let records = 20 * WRITE_BYTES / 16_384;
        assert!(wire.len() > records * (16_384 + 22), "no update of the keys among the records");
        let mut got = 0;
        let mut wire = &wire[..];
        loop {
            match receiver.read(&mut wire, |bytes| assert!(bytes.iter().all(|&byte| byte == 7))) {
                Ok(0) => break,
                Ok(bytes) => got += bytes,
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(got, 20 * WRITE_BYTES);
    }
}
