//! The head of a compressed message: how it is kept, and how long it is before and after.
//!
//! 9 bytes: the form (1), the length of the payload (4), the length of what follows (4), all big
//! endian.

pub const HEAD_BYTES: usize = 9;

/// The longest payload of a frame, and so the most memory that a frame can make a receiver take:
/// redo transport sends no more at a time, and beyond it no window of the methods reaches.
pub const PAYLOAD_MAX: usize = 1 << 20;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Head {
    pub form: Form,
    pub payload_len: usize,
    /// Of what follows the head.
    pub body_len: usize,
}

/// How the payload is kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Form {
    /// As it is: compressed, it would not be shorter.
    Stored,
    Lz4,
    Zlib,
}

/// Why this is no head.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum InvalidHead {
    #[error("{0} is no form of a frame")]
    Form(u8),
    #[error("a frame says that {body} bytes hold {payload} bytes of payload")]
    Lengths { body: u32, payload: u32 },
}

impl Head {
    pub fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[0] = match self.form {
            Form::Stored => 0,
            Form::Lz4 => 1,
            Form::Zlib => 2,
        };
        bytes[1..5].copy_from_slice(&(self.payload_len as u32).to_be_bytes());
        bytes[5..].copy_from_slice(&(self.body_len as u32).to_be_bytes());
        bytes
    }

    /// `None`: there are fewer bytes than a head has.
    pub fn from_bytes(bytes: &[u8]) -> Result<Option<Self>, InvalidHead> {
        let Some(&[form, a, b, c, d, e, f, g, h]) = bytes.first_chunk::<HEAD_BYTES>() else {
            return Ok(None);
        };
        let form = match form {
            0 => Form::Stored,
            1 => Form::Lz4,
            2 => Form::Zlib,
            other => return Err(InvalidHead::Form(other)),
        };
        let (payload, body) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
        let head = Self { form, payload_len: payload as usize, body_len: body as usize };
        match head.is_possible() {
            true => Ok(Some(head)),
            false => Err(InvalidHead::Lengths { body, payload }),
        }
    }

    fn is_possible(self) -> bool {
        let fits = match self.form {
            Form::Stored => self.body_len == self.payload_len,
            Form::Lz4 | Form::Zlib => (1..self.payload_len).contains(&self.body_len),
        };
        fits && (1..=PAYLOAD_MAX).contains(&self.payload_len)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_head_that_is_taken_says_what_it_said(bytes: [u8; HEAD_BYTES]) {
            if let Ok(head) = Head::from_bytes(&bytes) {
                prop_assert_eq!(head.unwrap().to_bytes(), bytes);
            }
        }

        #[test]
        fn no_head_makes_a_receiver_take_more_than_the_longest_payload(
            form in 0..3_u8, payload: u32, body: u32,
        ) {
            let mut bytes = [0; HEAD_BYTES];
            bytes[0] = form;
            bytes[1..5].copy_from_slice(&payload.to_be_bytes());
            bytes[5..].copy_from_slice(&body.to_be_bytes());
            if let Ok(head) = Head::from_bytes(&bytes) {
                let head = head.unwrap();
                prop_assert!(head.payload_len <= PAYLOAD_MAX && head.body_len <= PAYLOAD_MAX);
            }
        }
    }

    #[test]
    fn a_frame_is_never_longer_than_its_payload() {
        let head = |form, payload_len, body_len| {
            Head::from_bytes(&Head { form, payload_len, body_len }.to_bytes())
        };
        assert!(head(Form::Stored, 100, 100).is_ok() && head(Form::Zlib, 100, 99).is_ok());
        assert_eq!(
            head(Form::Lz4, 100, 100).unwrap_err().to_string(),
            "a frame says that 100 bytes hold 100 bytes of payload"
        );
        assert!(head(Form::Stored, 100, 99).is_err());
        assert!(head(Form::Stored, 0, 0).is_err());
        assert!(head(Form::Stored, PAYLOAD_MAX + 1, PAYLOAD_MAX + 1).is_err());
        assert_eq!(Head::from_bytes(&[7; HEAD_BYTES]), Err(InvalidHead::Form(7)));
        assert_eq!(Head::from_bytes(&[0; HEAD_BYTES - 1]), Ok(None));
    }
}
