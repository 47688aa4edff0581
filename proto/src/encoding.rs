//! What is done to a payload on its way: a model of Oracle Net encryption and of redo compression.

use serde::{Deserialize, Serialize};

use crate::{FromWire, InvalidMessage, ToWire, pb};

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    Tls(TlsCipher),
    Compression(Compression),
}

/// Of TLS 1.3 (RFC 8446, appendix B.4).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TlsCipher {
    Aes128Gcm,
    Aes256Gcm,
    Chacha20Poly1305,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Compression {
    pub method: CompressionMethod,
    /// Of zlib, 1 to 9; LZ4 has one only.
    pub level: u32,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompressionMethod {
    Lz4,
    Zlib,
}

impl std::fmt::Display for Encoding {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tls(cipher) => write!(formatter, "{cipher}"),
            Self::Compression(Compression { method: CompressionMethod::Lz4, .. }) => {
                formatter.write_str("lz4")
            }
            Self::Compression(Compression { method: CompressionMethod::Zlib, level }) => {
                write!(formatter, "zlib-{level}")
            }
        }
    }
}

impl std::fmt::Display for TlsCipher {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Aes128Gcm => "aes-128-gcm",
            Self::Aes256Gcm => "aes-256-gcm",
            Self::Chacha20Poly1305 => "chacha20-poly1305",
        })
    }
}

mirror!(Compression, Compression { method, level });
mirror_enum!(CompressionMethod, CompressionMethod { Lz4, Zlib });
mirror_enum!(TlsCipher, TlsCipher { Aes128Gcm, Aes256Gcm, Chacha20Poly1305 });

impl ToWire<pb::Encoding> for Encoding {
    fn to_wire(self) -> pb::Encoding {
        use pb::encoding::Kind;
        let kind = match self {
            Self::Tls(cipher) => Kind::Tls(cipher.to_wire()),
            Self::Compression(compression) => Kind::Compression(compression.to_wire()),
        };
        pb::Encoding { kind: Some(kind) }
    }
}

impl FromWire<pb::Encoding> for Encoding {
    fn from_wire(wire: pb::Encoding) -> Result<Self, InvalidMessage> {
        use pb::encoding::Kind;
        match wire.kind.ok_or_else(|| InvalidMessage::missing().at("kind"))? {
            Kind::Tls(cipher) => TlsCipher::from_wire(cipher).map(Self::Tls),
            Kind::Compression(compression) => {
                let compression = Compression::from_wire(compression)?;
                let levels = match compression.method {
                    CompressionMethod::Lz4 => 0..=0,
                    CompressionMethod::Zlib => 1..=9,
                };
                if !levels.contains(&compression.level) {
                    let why = format!("{} is no level of it", compression.level);
                    return Err(InvalidMessage::invalid(why).at("level"));
                }
                Ok(Self::Compression(compression))
            }
        }
    }
}
