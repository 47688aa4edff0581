//! Memory for direct I/O: page aligned, of 4 KiB pages, never shared with a child process.

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

const PAGE_BYTES: usize = 4096;

/// A mapping of its own, as a PGA allocates it: 4 KiB pages even where transparent huge pages are
/// on, because page size decides how a large read is split.
#[derive(Debug)]
pub struct PageBuffer {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to this value alone, and is reached only through it.
unsafe impl Send for PageBuffer {}
// SAFETY: a shared reference gives shared access to plain bytes only.
unsafe impl Sync for PageBuffer {}

impl PageBuffer {
    /// Maps `len` bytes and touches every page, so that no page fault falls into a measurement.
    pub fn new(len: usize) -> io::Result<Self> {
        if len == 0 {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        // SAFETY: an anonymous private mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut buffer = Self { start, len };
        for advice in [libc::MADV_NOHUGEPAGE, libc::MADV_DONTFORK] {
            // A kernel without huge pages refuses the first: then there is nothing to turn off.
            // SAFETY: the range is the mapping made above.
            unsafe { libc::madvise(buffer.start.as_ptr().cast(), len, advice) };
        }
        buffer.iter_mut().step_by(PAGE_BYTES).for_each(|byte| *byte = 1);
        Ok(buffer)
    }
}

impl Deref for PageBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is `len` bytes long, initialised by the kernel, and lives with self.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for PageBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for PageBuffer {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` and is not used after this.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_page_aligned_and_writable() {
        let mut buffer = PageBuffer::new(12_288).unwrap();
        assert_eq!(buffer.as_ptr() as usize % PAGE_BYTES, 0);
        buffer[12_287] = 7;
        assert_eq!((buffer.len(), buffer[12_287]), (12_288, 7));
    }
}
