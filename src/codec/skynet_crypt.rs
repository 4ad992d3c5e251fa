//! The functions of skynet's module `crypt` that no crate has: its hash of eight bytes, its 64-bit message
//! authentication codes, its key exchange, DES with its padding, and its tolerant Base64. They protect nothing by
//! today's measure; they exist because deployed clients use them. Integers are stored least significant byte first.

use des::cipher::{Array, BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use md5::block_api::compress;

/// A key, a hash, or a 64-bit integer.
pub(crate) type Eight = [u8; 8];

/// The state with which MD5 starts.
const MD5_STATE: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];

/// The modulus of the key exchange, the largest prime below 2 to the power of 64, and its generator.
const PRIME: u64 = 0xffff_ffff_ffff_ffc5;
const GENERATOR: u64 = 5;

/// The size of a block of DES.
pub(crate) const BLOCK: usize = 8;

/// The first byte of the padding after a text; the other bytes are 0 (ISO 7816-4).
const PAD: u8 = 0x80;

/// How a text is extended to whole blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Padding {
    /// The byte 0x80, and then zeros.
    Iso7816,
    /// As many bytes as are missing, each with this number.
    Pkcs7,
}

/// Returns the two hashes of `text` that make a key: Bernstein's (times 33, plus) and Justin Sobel's.
pub(crate) fn hash_key(text: &[u8]) -> Eight {
    let (mut djb, mut js) = (5381_u32, 1_315_423_911_u32);
    for &byte in text {
        let byte = u32::from(byte);
        djb = djb.wrapping_add((djb << 5).wrapping_add(byte));
        js ^= (js << 5).wrapping_add(byte).wrapping_add(js >> 2);
    }
    join(djb, js)
}

fn join(low: u32, high: u32) -> Eight {
    (u64::from(high) << 32 | u64::from(low)).to_le_bytes()
}

fn halves(bytes: Eight) -> [u32; 2] {
    let whole = u64::from_le_bytes(bytes);
    [whole as u32, (whole >> 32) as u32]
}

/// Returns a block of MD5 with 16 words.
fn block(words: [u32; 16]) -> [u8; 64] {
    let mut bytes = [0; 64];
    for (part, word) in bytes.chunks_exact_mut(4).zip(words) {
        part.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// Returns the code of `hmac64`: the rounds of MD5 over one block, without the padding and without the addition of the
/// first state.
pub(crate) fn hmac64(text: Eight, key: Eight) -> Eight {
    let ([x0, x1], [y0, y1]) = (halves(text), halves(key));
    let mut words = [0; 16];
    for part in words.chunks_exact_mut(4) {
        part.copy_from_slice(&[x1, x0, y1, y0]);
    }
    let mut state = MD5_STATE;
    compress(&mut state, &[block(words)]);
    for (word, first) in state.iter_mut().zip(MD5_STATE) {
        *word = word.wrapping_sub(first);
    }
    let [a, b, c, d] = state;
    join(c ^ d, a ^ b)
}

/// Returns the code of `hmac64_md5`: the two halves of the MD5 of three copies of text and key, combined.
pub(crate) fn hmac64_md5(text: Eight, key: Eight) -> Eight {
    let digest = md5::compute([text, key, text, key, text, key].as_flattened());
    std::array::from_fn(|i| digest[i] ^ digest[i + 8])
}

mod md5 {
    pub(super) use ::md5::block_api;
    use ::md5::{Digest, Md5};

    pub(super) fn compute(bytes: &[u8]) -> [u8; 16] {
        Md5::digest(bytes).into()
    }
}

fn power(base: u64, mut exponent: u64) -> u64 {
    let times = |a: u64, b: u64| (u128::from(a) * u128::from(b) % u128::from(PRIME)) as u64;
    let (mut result, mut square) = (1, base % PRIME);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = times(result, square);
        }
        square = times(square, square);
        exponent >>= 1;
    }
    result
}

/// Returns the public number for a private one; `None` if it is 0.
pub(crate) fn exchange(private: Eight) -> Option<Eight> {
    secret(GENERATOR.to_le_bytes(), private)
}

/// Returns the secret that two sides share; `None` if one of the numbers is 0.
pub(crate) fn secret(public: Eight, private: Eight) -> Option<Eight> {
    let (public, private) = (u64::from_le_bytes(public), u64::from_le_bytes(private));
    (public != 0 && private != 0).then(|| power(public, private).to_le_bytes())
}

/// Encrypts a text, with its padding, block by block.
pub(crate) fn des_encode(key: Eight, text: &[u8], padding: Padding) -> Vec<u8> {
    let mut bytes = text.to_vec();
    let missing = BLOCK - text.len() % BLOCK;
    match padding {
        Padding::Iso7816 => {
            bytes.push(PAD);
            bytes.resize(text.len() + missing, 0);
        }
        Padding::Pkcs7 => bytes.resize(text.len() + missing, missing as u8),
    }
    let cipher = des::Des::new(&key.into());
    for block in Array::slice_as_chunks_mut(&mut bytes).0 {
        cipher.encrypt_block(block);
    }
    bytes
}

/// Decrypts a text; `None` if it is not whole blocks, or if its padding is invalid.
pub(crate) fn des_decode(key: Eight, text: &[u8], padding: Padding) -> Option<Vec<u8>> {
    let mut bytes = text.to_vec();
    let cipher = des::Des::new(&key.into());
    let (blocks, rest) = Array::slice_as_chunks_mut(&mut bytes);
    if !rest.is_empty() {
        return None;
    }
    for block in blocks {
        cipher.decrypt_block(block);
    }
    let last = bytes.len().checked_sub(BLOCK)?;
    let size = match padding {
        Padding::Iso7816 => bytes.iter().rposition(|&byte| byte != 0).filter(|&at| at >= last && bytes[at] == PAD)?,
        Padding::Pkcs7 => {
            let count = usize::from(bytes[bytes.len() - 1]);
            let size = (1..=BLOCK).contains(&count).then_some(bytes.len() - count.min(BLOCK))?;
            bytes[size..].iter().all(|&byte| usize::from(byte) == count).then_some(size)?
        }
    };
    bytes.truncate(size);
    Some(bytes)
}

/// Returns the bytes that a text of hexadecimal digits, in either case, encodes.
pub(crate) fn hex_decode(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (pairs, rest) = text.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|&[high, low]| Some((digit(high)? << 4 | digit(low)?) as u8)).collect()
}

/// Returns the bytes as hexadecimal digits in lower case.
pub(crate) fn hex_encode(bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|&byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]).collect()
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Returns the bytes in Base64, with padding.
pub(crate) fn base64_encode(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    for part in bytes.chunks(3) {
        let mut three = [0; 3];
        three[..part.len()].copy_from_slice(part);
        let all = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for place in 0..4 {
            let digit = BASE64[(all >> (18 - 6 * place) & 63) as usize];
            text.push(if place > part.len() { b'=' } else { digit });
        }
    }
    text
}

/// Decodes Base64. Other characters between the digits are skipped; `None` if the last group is not complete, or if its
/// unused bits are set.
pub(crate) fn base64_decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let mut rest = text;
    while !rest.is_empty() {
        let (mut all, mut padding, mut count) = (0_u32, 0, 0);
        while count < 4 {
            let (&byte, behind) = rest.split_first()?;
            rest = behind;
            let digit = match byte {
                b'=' => {
                    padding += 1;
                    0
                }
                _ => match BASE64.iter().position(|&known| known == byte) {
                    // A digit after the padding.
                    Some(_) if padding > 0 => return None,
                    Some(digit) => digit as u32,
                    None => continue,
                },
            };
            all = all << 6 | digit;
            count += 1;
        }
        let unused = match padding {
            0 => 0,
            1 => all >> 6 & 3,
            2 => all >> 12 & 15,
            _ => return None,
        };
        if unused != 0 {
            return None;
        }
        bytes.extend_from_slice(&all.to_be_bytes()[1..4 - padding]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_exchange_gives_both_sides_the_same_secret() {
        let (a, b) = (0x0123_4567_89ab_cdef_u64.to_le_bytes(), u64::MAX.to_le_bytes());
        let (to_a, to_b) = (exchange(b).unwrap(), exchange(a).unwrap());
        assert_eq!(secret(to_a, a), secret(to_b, b));
        assert_eq!(exchange(1_u64.to_le_bytes()), Some(5_u64.to_le_bytes()));
        assert_eq!(exchange(28_u64.to_le_bytes()), Some(u64::to_le_bytes((5_u128.pow(28) % u128::from(PRIME)) as u64)));
        assert_eq!(exchange([0; 8]), None);
        assert_eq!(secret([0; 8], a), None);
    }

    #[test]
    fn des_matches_the_published_vectors() {
        // FIPS 81, table B1: "Now is the time for all " in ECB mode.
        let key = 0x0123_4567_89ab_cdef_u64.to_be_bytes();
        let encoded = des_encode(key, b"Now is the time for all ", Padding::Iso7816);
        assert_eq!(hex_encode(&encoded[..24]), b"3fa40e8a984d48156a271787ab8883f9893d51ec4b563b53");
        assert_eq!(encoded.len(), 32);
        assert_eq!(des_decode(key, &encoded, Padding::Iso7816).unwrap(), b"Now is the time for all ");
    }

    #[test]
    fn des_pads_every_length_and_refuses_invalid_padding() {
        let key = *b"12345678";
        for padding in [Padding::Iso7816, Padding::Pkcs7] {
            for length in 0..20 {
                let text = vec![0; length];
                let encoded = des_encode(key, &text, padding);
                assert_eq!(encoded.len(), (length / 8 + 1) * 8);
                assert_eq!(des_decode(key, &encoded, padding).unwrap(), text);
                assert_eq!(des_decode(key, &encoded[1..], padding), None);
            }
            assert_eq!(des_decode(key, b"", padding), None);
        }
        let unpadded = des_encode(key, &[0; 8], Padding::Pkcs7);
        assert_eq!(des_decode(key, &unpadded[..8], Padding::Pkcs7), None);
        assert_eq!(des_decode(key, &unpadded[..8], Padding::Iso7816), None);
    }

    #[test]
    fn the_md5_code_is_that_of_the_crate() {
        // Without the last step of MD5, the code is what `compress` adds to the state.
        let (text, key) = (*b"abcdefgh", *b"12345678");
        let mut words = [0; 16];
        for part in words.chunks_exact_mut(4) {
            part.copy_from_slice(&[0x6867_6665, 0x6463_6261, 0x3837_3635, 0x3433_3231]);
        }
        let mut state = MD5_STATE;
        compress(&mut state, &[block(words)]);
        let rounds: Vec<u32> = state.iter().zip(MD5_STATE).map(|(after, before)| after.wrapping_sub(before)).collect();
        assert_eq!(halves(hmac64(text, key)), [rounds[2] ^ rounds[3], rounds[0] ^ rounds[1]]);
    }

    #[test]
    fn base64_skips_other_characters_and_refuses_incomplete_groups() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")] {
            assert_eq!(base64_encode(bytes.as_bytes()), text.as_bytes());
            assert_eq!(base64_decode(text.as_bytes()).unwrap(), bytes.as_bytes());
        }
        assert_eq!(base64_decode(b"Zm\n9v").unwrap(), b"foo");
        for text in ["Z", "Zg=", "Zm9v\n", "Zh==", "Zm9=", "Z===", "Zg=v", "===="] {
            assert_eq!(base64_decode(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn hexadecimal_digits_are_read_in_both_cases() {
        assert_eq!(hex_encode(b"\x00\xfeA"), b"00fe41");
        assert_eq!(hex_decode(b"00fE41").unwrap(), b"\x00\xfeA");
        assert_eq!(hex_decode(b"0"), None);
        assert_eq!(hex_decode(b"0g"), None);
    }
}
