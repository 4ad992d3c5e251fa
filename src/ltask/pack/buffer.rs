//! Bytes under construction, in a block of libc's malloc: what a message travels in. Used by `encode`.
//!
//! `length <= capacity`, and the first `length` bytes are written.

use super::format::*;
use libc::c_void;
use std::ptr;

const FIRST: usize = 512;
/// From here on the block itself is given away; below it a copy of the right size is cheaper.
const LARGE: usize = 16 * 1024;

/// No memory for a message.
pub(super) struct Exhausted;

pub(super) struct Buffer {
    start: *mut u8,
    length: usize,
    capacity: usize,
}

impl Buffer {
    pub(super) const fn new() -> Self {
        Buffer {
            start: ptr::null_mut(),
            length: 0,
            capacity: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn clear(&mut self) {
        self.length = 0;
    }

    #[inline]
    fn reserve(&mut self, more: usize) -> Result<(), Exhausted> {
        if self.capacity - self.length >= more {
            return Ok(());
        }
        self.grow(more)
    }

    #[cold]
    fn grow(&mut self, more: usize) -> Result<(), Exhausted> {
        let needed = self.length.checked_add(more).ok_or(Exhausted)?;
        let capacity = needed.max(self.capacity.saturating_mul(2)).max(FIRST);
        // SAFETY: `start` is null or this buffer's own block.
        let start = unsafe { libc::realloc(self.start.cast(), capacity) };
        if start.is_null() {
            return Err(Exhausted);
        }
        self.start = start.cast();
        self.capacity = capacity;
        Ok(())
    }

    #[inline(always)]
    pub(super) fn byte(&mut self, byte: u8) -> Result<(), Exhausted> {
        self.array([byte])
    }

    /// Appends a few bytes whose number the compiler knows.
    #[inline(always)]
    pub(super) fn array<const N: usize>(&mut self, bytes: [u8; N]) -> Result<(), Exhausted> {
        self.reserve(N)?;
        // SAFETY: there is room for `N` bytes.
        unsafe { self.start.add(self.length).cast::<[u8; N]>().write(bytes) };
        self.length += N;
        Ok(())
    }

    /// A tag and a number behind it.
    #[inline(always)]
    pub(super) fn tagged<const N: usize>(
        &mut self,
        tag: u8,
        bytes: [u8; N],
    ) -> Result<(), Exhausted> {
        self.reserve(N + 1)?;
        // SAFETY: there is room for both.
        unsafe {
            let end = self.start.add(self.length);
            end.write(tag);
            end.add(1).cast::<[u8; N]>().write(bytes);
        }
        self.length += N + 1;
        Ok(())
    }

    /// A tag and bytes behind it.
    #[inline(always)]
    pub(super) fn tagged_bytes(&mut self, tag: u8, bytes: &[u8]) -> Result<(), Exhausted> {
        let length = bytes.len();
        self.reserve(length + 1)?;
        // SAFETY: there is room for both, and nobody else refers to it.
        unsafe {
            let end = self.start.add(self.length);
            end.write(tag);
            copy_short(bytes.as_ptr(), end.add(1), length);
        }
        self.length += length + 1;
        Ok(())
    }

    #[inline]
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Exhausted> {
        self.reserve(bytes.len())?;
        // SAFETY: there is room, and nobody else refers to it.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(self.length), bytes.len());
        }
        self.length += bytes.len();
        Ok(())
    }

    /// The bytes so far, to be corrected.
    pub(super) fn written(&mut self) -> &mut [u8] {
        if self.length == 0 {
            return &mut [];
        }
        // SAFETY: that many are written.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.length) }
    }

    /// The bytes as a block of exactly their size, which the caller frees; the buffer is empty then.
    pub(super) fn finish(&mut self) -> Result<(*mut c_void, usize), Exhausted> {
        let size = self.length;
        if size == 0 {
            return Ok((ptr::null_mut(), 0));
        }
        if size >= LARGE {
            // SAFETY: the buffer's own block; when it cannot shrink it serves as it is.
            let block = unsafe { libc::realloc(self.start.cast(), size) };
            let whole = self.start.cast();
            // Field by field: the block is the caller's now, not to be dropped.
            self.start = ptr::null_mut();
            self.length = 0;
            self.capacity = 0;
            return Ok((if block.is_null() { whole } else { block }, size));
        }
        // SAFETY: a fresh block of that size.
        unsafe {
            let block = libc::malloc(size);
            if block.is_null() {
                return Err(Exhausted);
            }
            ptr::copy_nonoverlapping(self.start, block.cast(), size);
            self.length = 0;
            Ok((block, size))
        }
    }

    /// Gives back a block that grew large for a message which then could not be packed.
    pub(super) fn trim(&mut self) {
        if self.capacity > 4 * LARGE {
            *self = Buffer::new();
        }
    }
}

/// Copies few bytes without a call: most strings are names.
///
/// # Safety
/// As for `copy_nonoverlapping`.
#[inline(always)]
unsafe fn copy_short(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: two words that overlap cover 8 to 16 bytes, two halves 4 to 8.
    unsafe {
        if length > 16 {
            return ptr::copy_nonoverlapping(from, to, length);
        }
        if length >= 8 {
            let last = from.add(length - 8).cast::<u64>().read_unaligned();
            to.cast::<u64>()
                .write_unaligned(from.cast::<u64>().read_unaligned());
            return to.add(length - 8).cast::<u64>().write_unaligned(last);
        }
        if length >= 4 {
            let last = from.add(length - 4).cast::<u32>().read_unaligned();
            to.cast::<u32>()
                .write_unaligned(from.cast::<u32>().read_unaligned());
            return to.add(length - 4).cast::<u32>().write_unaligned(last);
        }
        for index in 0..length {
            to.add(index).write(from.add(index).read());
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: null, or this buffer's own block.
        unsafe { libc::free(self.start.cast()) }
    }
}

/// Appends an integer in its shortest form.
#[inline]
pub(super) fn write_integer(buffer: &mut Buffer, value: i64) -> Result<(), Exhausted> {
    let small = value.wrapping_add(INTEGER_BIAS);
    if (0..INTEGER_END.into()).contains(&small) {
        buffer.byte(small as u8)
    } else if let Ok(value) = i8::try_from(value) {
        buffer.tagged(INTEGER_8, value.to_ne_bytes())
    } else if let Ok(value) = i16::try_from(value) {
        buffer.tagged(INTEGER_16, value.to_ne_bytes())
    } else if let Ok(value) = i32::try_from(value) {
        buffer.tagged(INTEGER_32, value.to_ne_bytes())
    } else {
        buffer.tagged(INTEGER_64, value.to_ne_bytes())
    }
}

/// Appends a string with its length before it.
#[inline(always)]
pub(super) fn write_string(buffer: &mut Buffer, bytes: &[u8]) -> Result<(), Exhausted> {
    let length = bytes.len();
    if length < STRING_END {
        return buffer.tagged_bytes(STRING | length as u8, bytes);
    }
    if let Ok(length) = u8::try_from(length) {
        buffer.tagged(STRING_8, length.to_ne_bytes())?;
    } else if let Ok(length) = u32::try_from(length) {
        buffer.tagged(STRING_32, length.to_ne_bytes())?;
    } else {
        buffer.tagged(STRING_64, (length as u64).to_ne_bytes())?;
    }
    buffer.bytes(bytes)
}
