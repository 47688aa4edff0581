//! Crossing the border between messages and domain types, with the place of what makes no sense.

use std::fmt;

/// A message that makes no sense, and where in it.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub struct InvalidMessage {
    /// Outermost first.
    path: Vec<&'static str>,
    problem: Problem,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Problem {
    Missing,
    Invalid(String),
}

impl InvalidMessage {
    pub fn missing() -> Self {
        Self { path: Vec::new(), problem: Problem::Missing }
    }

    pub fn invalid(why: impl Into<String>) -> Self {
        Self { path: Vec::new(), problem: Problem::Invalid(why.into()) }
    }

    /// The same, seen from the message that has it in `field`.
    #[must_use]
    pub fn at(mut self, field: &'static str) -> Self {
        self.path.insert(0, field);
        self
    }
}

impl fmt::Display for InvalidMessage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.join(".");
        match &self.problem {
            Problem::Missing => write!(formatter, "`{path}` is missing"),
            Problem::Invalid(why) => write!(formatter, "`{path}` is invalid: {why}"),
        }
    }
}

/// Into a message (`W`); cannot fail.
pub trait ToWire<W> {
    fn to_wire(self) -> W;
}

/// Out of a message (`W`).
pub trait FromWire<W>: Sized {
    fn from_wire(wire: W) -> Result<Self, InvalidMessage>;
}

macro_rules! same_on_both_sides {
    ($($kind:ty),*) => {$(
        impl ToWire<$kind> for $kind {
            fn to_wire(self) -> $kind {
                self
            }
        }
        impl FromWire<$kind> for $kind {
            fn from_wire(wire: $kind) -> Result<Self, InvalidMessage> {
                Ok(wire)
            }
        }
    )*};
}

same_on_both_sides!(bool, u32, u64, i64, f64, String);

impl<T: ToWire<W>, W> ToWire<Option<W>> for Option<T> {
    fn to_wire(self) -> Option<W> {
        self.map(ToWire::to_wire)
    }
}

impl<T: FromWire<W>, W> FromWire<Option<W>> for Option<T> {
    fn from_wire(wire: Option<W>) -> Result<Self, InvalidMessage> {
        wire.map(T::from_wire).transpose()
    }
}

impl<T: ToWire<W>, W> ToWire<Vec<W>> for Vec<T> {
    fn to_wire(self) -> Vec<W> {
        self.into_iter().map(ToWire::to_wire).collect()
    }
}

impl<T: FromWire<W>, W> FromWire<Vec<W>> for Vec<T> {
    fn from_wire(wire: Vec<W>) -> Result<Self, InvalidMessage> {
        wire.into_iter().map(T::from_wire).collect()
    }
}

/// Both conversions of a struct whose fields have the names of its message's fields.
macro_rules! mirror {
    ($domain:ident, $wire:ident { $($field:ident),* $(,)? }) => {
        impl $crate::ToWire<$crate::pb::$wire> for $domain {
            fn to_wire(self) -> $crate::pb::$wire {
                $crate::pb::$wire { $($field: $crate::ToWire::to_wire(self.$field)),* }
            }
        }
        impl $crate::FromWire<$crate::pb::$wire> for $domain {
            fn from_wire(wire: $crate::pb::$wire) -> Result<Self, $crate::InvalidMessage> {
                Ok(Self {
                    $($field: $crate::FromWire::from_wire(wire.$field)
                        .map_err(|error| error.at(stringify!($field)))?),*
                })
            }
        }
        mirror!(@required $domain, $wire);
    };
    // A message field is always optional on the wire; where the domain needs it, absence is an error.
    (@required $domain:ident, $wire:ident) => {
        impl $crate::ToWire<Option<$crate::pb::$wire>> for $domain {
            fn to_wire(self) -> Option<$crate::pb::$wire> {
                Some($crate::ToWire::to_wire(self))
            }
        }
        impl $crate::FromWire<Option<$crate::pb::$wire>> for $domain {
            fn from_wire(wire: Option<$crate::pb::$wire>) -> Result<Self, $crate::InvalidMessage> {
                $crate::FromWire::from_wire(wire.ok_or_else($crate::InvalidMessage::missing)?)
            }
        }
    };
}

/// Both conversions of an enum without data; the message's value 0 means that it was not set.
macro_rules! mirror_enum {
    ($domain:ident, $wire:ident { $($variant:ident),* $(,)? }) => {
        impl $crate::ToWire<i32> for $domain {
            fn to_wire(self) -> i32 {
                match self { $(Self::$variant => $crate::pb::$wire::$variant as i32),* }
            }
        }
        impl $crate::FromWire<i32> for $domain {
            fn from_wire(wire: i32) -> Result<Self, $crate::InvalidMessage> {
                match $crate::pb::$wire::try_from(wire) {
                    $(Ok($crate::pb::$wire::$variant) => Ok(Self::$variant),)*
                    _ => Err($crate::InvalidMessage::invalid(format!(
                        "{wire} is no {}", stringify!($domain)
                    ))),
                }
            }
        }
    };
}
