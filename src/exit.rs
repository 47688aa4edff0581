//! The exit codes: never reused, and the most severe one wins.

use std::process::{ExitCode, Termination};

/// Ordered by severity, the least severe first.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Exit {
    #[default]
    Success,
    /// Against the baseline only.
    Regression,
    /// Need not met, or an assertion failed.
    NotMet,
    /// Some nodes could not be reached or were lost; the rest is done.
    Unreachable,
    /// A step could not measure, or a stated need cannot be judged.
    CannotTell,
    /// Stopped by a limit of the runbook.
    Limit,
    /// A node is busy with another run.
    Busy,
    /// Runbook, inventory or arguments are wrong; nothing was contacted.
    Usage,
    /// Interrupted, and cleaned up.
    Interrupted,
    /// A bug.
    Internal,
}

impl Exit {
    pub fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::NotMet => 1,
            Self::Usage => 2,
            Self::Unreachable => 3,
            Self::CannotTell => 4,
            Self::Limit => 5,
            Self::Busy => 6,
            Self::Regression => 7,
            Self::Internal => 70,
            Self::Interrupted => 130,
        }
    }

    /// The meaning of a code; one that is nobody's comes from a bug.
    pub fn of_code(code: u8) -> Self {
        Self::ALL.into_iter().find(|exit| exit.code() == code).unwrap_or(Self::Internal)
    }

    const ALL: [Self; 10] = [
        Self::Success,
        Self::Regression,
        Self::NotMet,
        Self::Unreachable,
        Self::CannotTell,
        Self::Limit,
        Self::Busy,
        Self::Usage,
        Self::Interrupted,
        Self::Internal,
    ];

    pub fn most_severe(exits: &[Self]) -> Self {
        exits.iter().copied().max().unwrap_or_default()
    }
}

impl Termination for Exit {
    fn report(self) -> ExitCode {
        ExitCode::from(self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_severity_is_the_documented_one() {
        let mut all = Exit::ALL;
        all.sort();
        all.reverse();
        assert_eq!(all.map(Exit::code), [70, 130, 2, 6, 5, 4, 3, 1, 7, 0]);
    }

    #[test]
    fn every_code_leads_back_to_its_meaning() {
        for exit in Exit::ALL {
            assert_eq!(Exit::of_code(exit.code()), exit);
        }
    }

    #[test]
    fn nothing_wrong_is_success() {
        assert_eq!(Exit::most_severe(&[]), Exit::Success);
        assert_eq!(Exit::most_severe(&[Exit::NotMet, Exit::Interrupted]), Exit::Interrupted);
    }
}
