//! One change of an MTU and its undoing, whatever the driver makes of what it is told.

use std::io;

use redoline_proto::transfer::{StopCause, Stopped};

use super::interface::{Interface, NotHeld};

/// An MTU that is read and set.
pub trait Setting {
    fn current(&self) -> io::Result<u32>;
    fn set(&self, mtu_bytes: u32) -> io::Result<()>;
}

impl Setting for Interface {
    fn current(&self) -> io::Result<u32> {
        self.current()
    }

    fn set(&self, mtu_bytes: u32) -> io::Result<()> {
        self.set_raw(mtu_bytes)
    }
}

/// What of the MTU's present value is this agent's to undo.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Ours {
    Nothing,
    /// The driver was told, and its answer is not known: whatever it is now.
    Anything,
    /// As it was read right after it was set; another value is somebody else's.
    Value(u32),
}

#[derive(Debug)]
pub struct Change<S> {
    setting: S,
    interface: String,
    before_bytes: u32,
    ours: Ours,
}

impl<S: Setting> Change<S> {
    /// Nothing is changed yet.
    pub fn new(setting: S, interface: String, before_bytes: u32) -> Self {
        Self { setting, interface, before_bytes, ours: Ours::Nothing }
    }

    /// Sets it and reads it back. After an error it is to be undone: a driver may have taken
    /// another value than it was told, as that of IPoIB does in datagram mode.
    pub fn make(&mut self, mtu: u32) -> Result<(), NotHeld> {
        let interface = || self.interface.clone();
        self.ours = Ours::Anything;
        self.setting.set(mtu).map_err(|cause| match cause.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => NotHeld::Forbidden { interface: interface() },
            _ => NotHeld::Set { interface: interface(), mtu, cause },
        })?;
        let now = self.setting.current().map_err(|cause| NotHeld::Unread {
            interface: interface(),
            mtu,
            cause,
        })?;
        self.ours = Ours::Value(now);
        match now == mtu {
            true => Ok(()),
            false => Err(NotHeld::Another { interface: interface(), mtu, now }),
        }
    }

    /// `None` when it cannot be read.
    pub fn current(&self) -> Option<u32> {
        self.setting.current().ok()
    }

    /// Why it is not held at `held_bytes` any more. One that cannot be read now may be later, but
    /// an interface that has gone does not come back.
    pub fn strayed(&self, held_bytes: u32) -> Option<Stopped> {
        let interface = &self.interface;
        let text = match self.setting.current() {
            Ok(current) if current == held_bytes => return None,
            Ok(current) => format!(
                "somebody else set the MTU of {interface} to {current} while the test held it at \
                 {held_bytes}: for an unknown part of the time it was another"
            ),
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {
                format!("{interface} has gone while the test held its MTU at {held_bytes}")
            }
            Err(_) => return None,
        };
        Some(system(text))
    }

    /// Only what is ours; somebody else's change stays. Whatever it says, there is nothing left to
    /// do, unless it is [`NotUndone::Failed`].
    pub fn undo(&mut self) -> Result<(), NotUndone> {
        let ours = std::mem::replace(&mut self.ours, Ours::Nothing);
        let (interface, before_bytes) = (&self.interface, self.before_bytes);
        let current = match (self.setting.current(), ours) {
            (_, Ours::Nothing) => return Ok(()),
            (Ok(current), _) if current == before_bytes => return Ok(()),
            (Ok(current), Ours::Value(held)) if current != held => {
                return Err(NotUndone::SomebodyElse(system(format!(
                    "somebody else set the MTU of {interface} to {current} meanwhile, so it \
                     stays; before the test it was {before_bytes}"
                ))));
            }
            // Whose value it is cannot be told.
            (Err(error), Ours::Value(_)) => Err(error),
            (Ok(_), _) | (Err(_), Ours::Anything) => Ok(()),
        };
        current.and_then(|()| self.set_back()).map_err(|error| {
            NotUndone::Failed(system(format!(
                "failed to restore the MTU of {interface}: {error}; it is tried again; check it, \
                 and if need be: ip link set {interface} mtu {before_bytes}"
            )))
        })
    }

    fn set_back(&self) -> io::Result<()> {
        self.setting.set(self.before_bytes)?;
        match self.setting.current() {
            Ok(now) if now != self.before_bytes => {
                let before = self.before_bytes;
                Err(io::Error::other(format!("it took {now} where {before} was asked for")))
            }
            _ => Ok(()),
        }
    }
}

/// Why the MTU is not as it was before.
#[derive(Debug)]
pub enum NotUndone {
    SomebodyElse(Stopped),
    /// Somebody has to try again.
    Failed(Stopped),
}

impl NotUndone {
    pub fn into_stopped(self) -> Stopped {
        match self {
            Self::SomebodyElse(stopped) | Self::Failed(stopped) => stopped,
        }
    }
}

fn system(text: String) -> Stopped {
    Stopped { cause: StopCause::System, text }
}

#[cfg(test)]
pub mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    /// A driver that takes no more than a most, and one that cannot always be read.
    #[derive(Clone, Debug)]
    pub struct Driver(Rc<State>);

    #[derive(Debug)]
    struct State {
        now: Cell<u32>,
        most: u32,
        /// So many reads fail from now on.
        unreadable: Cell<u32>,
    }

    impl Driver {
        pub fn new(now: u32, most: u32) -> Self {
            Self(Rc::new(State { now: Cell::new(now), most, unreadable: Cell::new(0) }))
        }

        pub fn now(&self) -> u32 {
            self.0.now.get()
        }

        /// By somebody else.
        pub fn becomes(&self, mtu: u32) {
            self.0.now.set(mtu);
        }

        fn fails_to_be_read(&self, times: u32) {
            self.0.unreadable.set(times);
        }
    }

    impl Setting for Driver {
        fn current(&self) -> io::Result<u32> {
            match self.0.unreadable.get() {
                0 => Ok(self.now()),
                left => {
                    self.0.unreadable.set(left - 1);
                    Err(io::ErrorKind::TimedOut.into())
                }
            }
        }

        fn set(&self, mtu_bytes: u32) -> io::Result<()> {
            self.0.now.set(mtu_bytes.min(self.0.most));
            Ok(())
        }
    }

    fn change(driver: &Driver) -> Change<Driver> {
        Change::new(driver.clone(), "ib0".to_owned(), driver.now())
    }

    #[test]
    fn an_mtu_that_the_driver_clamps_is_not_somebody_elses_and_is_set_back() {
        let driver = Driver::new(1500, 2044);
        let mut change = change(&driver);
        let error = change.make(4092).unwrap_err().to_string();
        assert_eq!(error, "ib0 took an MTU of 2044 where 4092 was asked for");
        assert_eq!(driver.now(), 2044);
        change.undo().unwrap();
        assert_eq!(driver.now(), 1500);
    }

    #[test]
    fn an_mtu_that_cannot_be_read_is_not_told_as_what_was_asked_and_is_set_back() {
        for failures in [1, 2, 3] {
            let driver = Driver::new(1500, 9000);
            let mut change = change(&driver);
            driver.fails_to_be_read(failures);
            let error = change.make(9000).unwrap_err();
            assert!(matches!(error, NotHeld::Unread { .. }), "{error:?}");
            change.undo().unwrap();
            assert_eq!(driver.now(), 1500, "{failures} reads failed");
        }
    }

    #[test]
    fn somebody_elses_value_stays_and_a_driver_that_does_not_go_back_is_told() {
        let driver = Driver::new(1500, 9000);
        let mut held = change(&driver);
        held.make(9000).unwrap();
        driver.becomes(4000);
        assert!(matches!(held.undo(), Err(NotUndone::SomebodyElse(_))));
        assert_eq!(driver.now(), 4000);
        assert!(held.undo().is_ok(), "undone once");
        // Above what it takes again, as after another mode was set.
        let driver = Driver::new(9000, 2044);
        let mut held = change(&driver);
        held.make(1400).unwrap();
        let Err(NotUndone::Failed(told)) = held.undo() else { panic!("undone") };
        assert_eq!(
            told.text,
            "failed to restore the MTU of ib0: it took 2044 where 9000 was asked for; it is tried \
             again; check it, and if need be: ip link set ib0 mtu 9000"
        );
    }

    #[test]
    fn nothing_that_was_not_changed_is_undone() {
        let driver = Driver::new(1500, 9000);
        let mut change = change(&driver);
        driver.becomes(4000);
        change.undo().unwrap();
        assert_eq!(driver.now(), 4000);
    }
}
