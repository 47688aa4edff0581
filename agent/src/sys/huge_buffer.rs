//! Memory for what is sent and received, in huge pages where the host has any to give.

use std::alloc::{Layout, handle_alloc_error};
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

/// Of x86-64 and of arm64 with 4 KiB pages; elsewhere the buffer has ordinary pages.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Zeros in a mapping of its own. What fills whole huge pages lies in them, as a database's buffers
/// in the SGA do: out of small pages, copies to and from a socket take more processor time
/// (docs/benchmarks.md).
#[derive(Debug)]
pub struct HugeBuffer {
    mapping: NonNull<u8>,
    mapping_len: usize,
    /// From the start of the mapping.
    offset: usize,
    len: usize,
}

// SAFETY: the mapping belongs to this value alone, and is reached only through it.
unsafe impl Send for HugeBuffer {}
// SAFETY: a shared reference gives shared access to plain bytes only.
unsafe impl Sync for HugeBuffer {}

impl HugeBuffer {
    /// Of `len` zeros, at least one. Ends the process where there is no memory, as a vector does.
    pub fn new(len: usize) -> Self {
        let layout = Layout::from_size_align(len, HUGE_PAGE_BYTES).unwrap_or(Layout::new::<u8>());
        Self::map(len.max(1)).unwrap_or_else(|_| handle_alloc_error(layout))
    }

    fn map(len: usize) -> io::Result<Self> {
        let mapping_len = len.next_multiple_of(HUGE_PAGE_BYTES) + HUGE_PAGE_BYTES;
        // SAFETY: an anonymous private mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                mapping_len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mapping = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let address = mapping.as_ptr() as usize;
        let offset = address.next_multiple_of(HUGE_PAGE_BYTES) - address;
        let buffer = Self { mapping, mapping_len, offset, len };
        // Only what is asked for, so that a short buffer does not take a whole huge page. A kernel
        // without huge pages refuses; then there are none.
        // SAFETY: the range is within the mapping made above.
        unsafe { libc::madvise(buffer.as_ptr().cast_mut().cast(), len, libc::MADV_HUGEPAGE) };
        Ok(buffer)
    }
}

impl Deref for HugeBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping reaches beyond `offset + len`, is zeroed by the kernel, and lives
        // with self.
        unsafe { std::slice::from_raw_parts(self.mapping.as_ptr().add(self.offset), self.len) }
    }
}

impl DerefMut for HugeBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.mapping.as_ptr().add(self.offset), self.len) }
    }
}

impl Drop for HugeBuffer {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` and is not used after this.
        unsafe { libc::munmap(self.mapping.as_ptr().cast(), self.mapping_len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_aligned_zeroed_and_writable_to_its_end() {
        for len in [1, 1 << 20, (4 << 20) + 1] {
            let mut buffer = HugeBuffer::new(len);
            assert_eq!(buffer.as_ptr() as usize % HUGE_PAGE_BYTES, 0);
            assert_eq!((buffer.len(), buffer[len - 1]), (len, 0));
            buffer.fill(7);
            assert_eq!(buffer[len - 1], 7);
        }
    }
}
