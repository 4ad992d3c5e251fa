//! Tests of the encoders and decoders against each other, in pieces of any size.

use super::Coding;
use super::decode::{DecodeError, Decoder};
use super::encode::Encoder;
use proptest::prelude::*;

const ALL: [Coding; 3] = [Coding::Gzip, Coding::Deflate, Coding::Brotli];

fn encoded(coding: Coding, data: &[u8]) -> Vec<u8> {
    let mut encoder = Encoder::new(coding, 4);
    encoder.write(data).unwrap();
    encoder.finish().unwrap();
    std::mem::take(encoder.output())
}

fn decoded(coding: Coding, data: &[u8], piece: usize, limit: usize) -> Result<Vec<u8>, DecodeError> {
    let mut decoder = Decoder::new(coding, limit);
    let mut all = Vec::new();
    for part in data.chunks(piece) {
        decoder.write(part)?;
        all.append(decoder.output());
    }
    decoder.finish()?;
    all.append(decoder.output());
    Ok(all)
}

#[test]
fn a_write_outputs_at_most_its_limit() {
    let zeros = vec![0; 100_000];
    for coding in ALL {
        let data = encoded(coding, &zeros);
        assert_eq!(decoded(coding, &data, data.len(), 100_000), Ok(zeros.clone()));
        let over = decoded(coding, &data, data.len(), 99_999);
        assert_eq!(over, Err(DecodeError::TooLong), "{coding:?}");
    }
}

#[test]
fn every_truncated_body_is_refused() {
    for coding in ALL {
        let data = encoded(coding, b"hello hello hello hello");
        for end in 1..data.len() {
            let got = decoded(coding, &data[..end], 3, 1000);
            assert_eq!(got, Err(DecodeError::Truncated), "{coding:?} at {end}");
        }
    }
}

/// Regression, found by a fuzzer: brotli's decoder kept the bytes beyond its buffer of 16 KiB until the next piece, so the
/// reader of a stream waited for data that had arrived.
#[test]
fn flushed_data_is_decoded_before_more_arrives() {
    let data = b"0123456789".repeat(10_000);
    for coding in ALL {
        for level in [1, 5] {
            let (mut encoder, mut decoder) = (Encoder::new(coding, level), Decoder::new(coding, data.len()));
            encoder.write(&data).unwrap();
            encoder.flush().unwrap();
            decoder.write(encoder.output()).unwrap();
            assert_eq!(decoder.output().len(), data.len(), "{coding:?}, level {level}");
        }
    }
}

/// Regression, found by a fuzzer: a body of 16 bytes made brotli's decoder allocate a window of up to 1 GiB.
#[test]
fn a_brotli_window_larger_than_16_mib_is_refused() {
    let with_window = |bits: i32| {
        let large = brotli::enc::BrotliEncoderParams {
            lgwin: bits,
            large_window: bits > 24,
            ..brotli::enc::BrotliEncoderParams::default()
        };
        let mut data = Vec::new();
        brotli::BrotliCompress(&mut &b"hello hello"[..], &mut data, &large).unwrap();
        data
    };
    for bits in 10..=24 {
        assert_eq!(decoded(Coding::Brotli, &with_window(bits), 3, 100), Ok(b"hello hello".to_vec()), "{bits} bits");
    }
    for bits in 25..=30 {
        let mut decoder = Decoder::new(Coding::Brotli, 100);
        assert_eq!(decoder.write(&with_window(bits)[..1]), Err(DecodeError::Corrupt), "{bits} bits");
    }
}

/// Regression: each member's header was copied together with all bytes after it, which took half a minute for this
/// body.
#[test]
fn a_body_of_many_tiny_members_costs_linear_time() {
    let members = encoded(Coding::Gzip, b"").repeat(200_000);
    let whole = decoded(Coding::Gzip, &members, members.len(), 100);
    assert_eq!(whole, Ok(Vec::new()));
}

#[test]
fn a_header_with_a_name_may_be_split_and_its_length_is_limited() {
    let plain = encoded(Coding::Gzip, b"hello");
    let named = |length: usize| {
        let mut data = plain[..10].to_vec();
        data[3] |= 8;
        data.extend(vec![b'n'; length]);
        data.push(0);
        data.extend_from_slice(&plain[10..]);
        data
    };
    for piece in [1, 7, 100_000] {
        let got = decoded(Coding::Gzip, &named(1000), piece, 100);
        assert_eq!(got, Ok(b"hello".to_vec()), "in pieces of {piece}");
    }
    for piece in [1000, 20_000] {
        let got = decoded(Coding::Gzip, &named(100_000), piece, 100);
        assert_eq!(got, Err(DecodeError::Corrupt), "in pieces of {piece}");
    }
}

#[test]
fn bytes_after_the_end_are_refused_except_gzip_members() {
    for coding in ALL {
        let mut data = encoded(coding, b"one");
        data.push(7);
        assert_eq!(decoded(coding, &data, 100, 100), Err(DecodeError::Corrupt), "{coding:?}");
        assert_eq!(decoded(coding, &data, 1, 100), Err(DecodeError::Corrupt), "{coding:?}");
    }
    let two = [encoded(Coding::Gzip, b"one "), encoded(Coding::Gzip, b"two")].concat();
    for piece in 1..two.len() {
        assert_eq!(decoded(Coding::Gzip, &two, piece, 100), Ok(b"one two".to_vec()));
    }
}

#[test]
fn gzip_headers_may_have_all_optional_fields() {
    let plain = encoded(Coding::Gzip, b"body");
    let mut data = vec![0x1f, 0x8b, 8, 2 + 4 + 8 + 16, 0, 0, 0, 0, 0, 3];
    data.extend_from_slice(b"\x03\x00abcname\0comment\0");
    // The checksum of the header itself.
    let mut sum = flate2::Crc::new();
    sum.update(&data);
    let at = data.len();
    data.extend_from_slice(&(sum.sum() as u16).to_le_bytes());
    data.extend_from_slice(&plain[10..]);
    for piece in 1..data.len() {
        assert_eq!(decoded(Coding::Gzip, &data, piece, 100), Ok(b"body".to_vec()));
    }
    for (place, bit) in [(3, 0x20), (at, 1)] {
        let mut data = data.clone();
        data[place] ^= bit;
        assert_eq!(decoded(Coding::Gzip, &data, 100, 100), Err(DecodeError::Corrupt));
    }
}

#[test]
fn data_that_does_not_begin_as_gzip_is_refused_at_any_length() {
    for piece in [1, 100] {
        let got = decoded(Coding::Gzip, b"nonsense", piece, 100);
        assert_eq!(got, Err(DecodeError::Corrupt), "in pieces of {piece}");
    }
}

#[test]
fn a_wrong_checksum_or_length_of_gzip_is_refused() {
    let good = encoded(Coding::Gzip, b"body");
    for place in good.len() - 8..good.len() {
        let mut data = good.clone();
        data[place] ^= 1;
        assert_eq!(decoded(Coding::Gzip, &data, 5, 100), Err(DecodeError::Corrupt));
    }
}

#[test]
fn an_endless_gzip_header_is_refused() {
    let mut data = vec![0x1f, 0x8b, 8, 8, 0, 0, 0, 0, 0, 3];
    data.resize(100_000, b'x');
    assert_eq!(decoded(Coding::Gzip, &data, 1000, 100), Err(DecodeError::Corrupt));
}

#[test]
fn raw_deflate_is_decoded() {
    let framed = encoded(Coding::Deflate, b"hello hello");
    let bare = &framed[2..framed.len() - 4];
    for piece in 1..bare.len() {
        assert_eq!(decoded(Coding::Deflate, bare, piece, 100), Ok(b"hello hello".to_vec()));
        assert_eq!(decoded(Coding::Deflate, &framed, piece, 100), Ok(b"hello hello".to_vec()));
    }
}

#[test]
fn flushed_output_can_be_decoded() {
    for coding in ALL {
        let mut encoder = Encoder::new(coding, 4);
        let mut decoder = Decoder::new(coding, 1000);
        for piece in [&b"one"[..], b"two", b"three"] {
            encoder.write(piece).unwrap();
            encoder.flush().unwrap();
            decoder.write(encoder.output()).unwrap();
            encoder.output().clear();
            assert_eq!(std::mem::take(decoder.output()), piece, "{coding:?}");
        }
    }
}

proptest! {
    #[test]
    fn encoded_data_decodes_to_itself(
        data in prop::collection::vec(0u8..4, 0..5000), piece in 1usize..2000
    ) {
        for coding in ALL {
            let packed = encoded(coding, &data);
            prop_assert_eq!(decoded(coding, &packed, piece, 5000), Ok(data.clone()));
        }
    }

    #[test]
    fn arbitrary_input_does_not_panic(
        mut data in prop::collection::vec(any::<u8>(), 0..300), piece in 1usize..50
    ) {
        for coding in ALL {
            if coding == Coding::Gzip && data.len() > 10 {
                data[..10].copy_from_slice(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3]);
            }
            let _ = decoded(coding, &data, piece, 1000);
        }
    }
}
