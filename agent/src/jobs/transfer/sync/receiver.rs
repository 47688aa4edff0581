//! The receiving end of SYNC: takes a whole message, writes it if that is asked, and answers.

use std::io::{self, Read, Write};
use std::sync::Arc;

use redoline_proto::transfer::StopCause;
use redoline_proto::units::Bytes;

use super::super::stopped;
use super::super::stream::{Course, Stream};
use super::Answer;
use crate::chain;
use crate::jobs::cancel::CancelFlag;
use crate::jobs::storage::{RedoLog, Region};
use crate::sys::clock::monotonic_ns;

/// Of one `recv`, where the message is not needed whole.
const BUFFER_MAX: u64 = Bytes::MIB;

/// Answers one stream; one thread each.
pub struct Answerer<'a> {
    stream: &'a Stream,
    halt: &'a CancelFlag,
    message_bytes: usize,
    memory: Memory,
}

/// Where a message goes.
enum Memory {
    /// Whole, to be written.
    Written(Region),
    /// Over and over into the same place.
    Kept(Vec<u8>),
}

/// How reading a message ended.
enum Arrival {
    Whole,
    /// Nothing more comes; true when it ended between two messages.
    End(bool),
}

impl<'a> Answerer<'a> {
    /// `log`: where messages are written; `None`: they are answered from memory.
    pub fn new(
        place: usize,
        stream: &'a Stream,
        halt: &'a CancelFlag,
        message: Bytes,
        log: Option<&Arc<RedoLog>>,
    ) -> io::Result<Self> {
        let memory = match log {
            Some(log) => Memory::Written(log.region(place)?),
            None => Memory::Kept(vec![0; message.0.min(BUFFER_MAX) as usize]),
        };
        Ok(Self { stream, halt, message_bytes: message.0 as usize, memory })
    }

    /// Until the sender is through; whether everything came, and what went wrong here.
    pub fn answer_all(mut self) -> (bool, Course) {
        let mut number = 0_u32;
        loop {
            match self.take() {
                Arrival::Whole => {}
                Arrival::End(complete) => return (complete, Course::Ran),
            }
            let write = match &mut self.memory {
                Memory::Kept(_) => None,
                Memory::Written(region) => match region.write() {
                    Ok(took) => Some(took),
                    Err(error) => {
                        let stopped = stopped(StopCause::System, chain(&error));
                        return (false, Course::Trouble(stopped));
                    }
                },
            };
            let answer = Answer { number, write };
            if (&self.stream.socket).write_all(&answer.to_bytes()).is_err() {
                return (false, Course::Ran);
            }
            number = number.wrapping_add(1);
        }
    }

    fn take(&mut self) -> Arrival {
        let memory = match &mut self.memory {
            Memory::Written(region) => region.message(),
            Memory::Kept(bytes) => bytes,
        };
        let mut came = 0;
        while came < self.message_bytes {
            let left = self.message_bytes - came;
            // The whole message, or as much of it as there is room for.
            let at = if memory.len() == self.message_bytes { came } else { 0 };
            let room = (memory.len() - at).min(left);
            match (&self.stream.socket).read(&mut memory[at..at + room]) {
                // Shutting the socket down from this side looks like the sender's end.
                Ok(0) => return Arrival::End(came == 0 && !self.halt.is_set()),
                Ok(bytes) => {
                    self.stream.progress.add(bytes, monotonic_ns());
                    came += bytes;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Arrival::End(false),
            }
        }
        Arrival::Whole
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::thread;

    use super::super::ANSWER_BYTES;
    use super::*;

    /// What an answerer of messages of `message` bytes makes of what `talk` says to it.
    fn answered(message: u64, talk: impl FnOnce(TcpStream) + Send + 'static) -> (bool, u64) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let stream = Stream::new(0, listener.accept().unwrap().0);
        let talker = thread::spawn(move || talk(near));
        let halt = CancelFlag::new();
        let answerer = Answerer::new(0, &stream, &halt, Bytes(message), None).unwrap();
        let (complete, course) = answerer.answer_all();
        stream.socket.shutdown(Shutdown::Write).unwrap();
        talker.join().unwrap();
        assert!(matches!(course, Course::Ran));
        (complete, stream.progress.bytes())
    }

    fn answer(socket: &mut TcpStream) -> Answer {
        let mut bytes = [0; ANSWER_BYTES];
        socket.read_exact(&mut bytes).unwrap();
        Answer::from_bytes(bytes).unwrap()
    }

    #[test]
    fn every_message_gets_one_answer_with_its_number() {
        let result = answered(3_000_000, |mut socket| {
            for number in 0..2 {
                socket.write_all(&vec![7; 3_000_000]).unwrap();
                assert_eq!(answer(&mut socket), Answer { number, write: None });
            }
        });
        assert_eq!(result, (true, 6_000_000));
    }

    #[test]
    fn a_message_may_be_one_byte() {
        let result = answered(1, |mut socket| {
            socket.write_all(&[1, 2, 3]).unwrap();
            let numbers = [(); 3].map(|()| answer(&mut socket).number);
            assert_eq!(numbers, [0, 1, 2]);
        });
        assert_eq!(result, (true, 3));
    }

    #[test]
    fn half_a_message_gets_none_and_is_not_everything() {
        let result = answered(100, |mut socket| {
            socket.write_all(&[1; 50]).unwrap();
            socket.shutdown(Shutdown::Write).unwrap();
            assert_eq!(socket.read(&mut [0]).unwrap_or(0), 0);
        });
        assert_eq!(result, (false, 50));
    }
}
