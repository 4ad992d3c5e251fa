//! Masking of payloads (RFC 6455 section 5.3). Masking and unmasking are the same operation.

/// A masking key. The first byte masks the next byte of the payload.
pub(crate) type Key = [u8; 4];

/// Masks or unmasks `bytes` in place. Returns the key for the bytes after them, rotated so that its first byte masks
/// the next byte.
#[inline]
pub(crate) fn apply(bytes: &mut [u8], key: Key) -> Key {
    let wide = u64::from_ne_bytes([key[0], key[1], key[2], key[3], key[0], key[1], key[2], key[3]]);
    let length = bytes.len();
    let (chunks, rest) = bytes.as_chunks_mut::<8>();
    for chunk in chunks {
        *chunk = (u64::from_ne_bytes(*chunk) ^ wide).to_ne_bytes();
    }
    for (index, byte) in rest.iter_mut().enumerate() {
        *byte ^= key[index % 4];
    }
    let mut next = key;
    next.rotate_left(length % 4);
    next
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn masking_in_pieces_equals_the_definition_of_the_rfc(
            bytes in prop::collection::vec(any::<u8>(), 0..300), key: Key, start in 0usize..16,
            cuts in prop::collection::vec(0usize..300, 0..5),
        ) {
            let start = start.min(bytes.len());
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.clamp(start, bytes.len())).collect();
            cuts.extend([start, bytes.len()]);
            cuts.sort_unstable();
            let mut masked = bytes.clone();
            let mut next = key;
            for pair in cuts.windows(2) {
                next = apply(&mut masked[pair[0]..pair[1]], next);
            }
            let naive = bytes.iter().enumerate().map(|(index, byte)| match index.checked_sub(start) {
                Some(offset) => byte ^ key[offset % 4],
                None => *byte,
            });
            prop_assert_eq!(masked, naive.collect::<Vec<u8>>());
            prop_assert_eq!(next[0], key[(bytes.len() - start) % 4]);
        }
    }
}
