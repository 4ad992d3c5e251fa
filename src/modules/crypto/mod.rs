//! `lio.crypto.core`: digests, encryption, random bytes, and texts that represent bytes. `lualib/lio/crypto.lua` adds
//! the functions that hash passwords, which are in `password`.

pub(crate) mod password;

use crate::codec::crypto::digest::{Algorithm, Digest, digest, hmac as hmac_of};
use crate::codec::crypto::sealed;
use crate::codec::crypto::text::Encoding;
use crate::event::clock::unix_millis;
use crate::lua::{Argument, Call, Failure, Fault, Function, FunctionTable, Module, New, Object, Stack, functions};
use subtle::ConstantTimeEq;

/// The maximum number of bytes that one call of `random` returns.
const MAX_RANDOM: i64 = 1 << 24;

/// A digest to which a program adds bytes. It is boxed, because its alignment is greater than that of a userdata.
struct Hash(Box<Digest>);

impl Object for Hash {
    const NAME: &'static str = "lio.crypto.hash";
    const METHODS: FunctionTable = functions! { update, digest = digest_of_object };
}

/// Returns the algorithm that the argument at `index` names.
fn algorithm(stack: &Stack, index: i32) -> Result<Algorithm, Fault> {
    const WANTED: &str = "algorithm must be 'sha256', 'sha384', 'sha512', 'sha224', 'sha1' or 'md5'";
    Algorithm::of(stack.bytes(index)?).ok_or_else(|| Fault::argument(index, WANTED))
}

/// Returns the encoding that the argument at `index` names; `Raw` if there is none.
fn encoding(stack: &Stack, index: i32) -> Result<Encoding, Fault> {
    const WANTED: &str = "encoding must be 'raw', 'hex', 'base64' or 'base64url'";
    let Some(name) = stack.optional(index, Stack::bytes)? else { return Ok(Encoding::Raw) };
    Encoding::of(name).ok_or_else(|| Fault::argument(index, WANTED))
}

/// Fills an array with random bytes. Raises an error if the system has none, so that no program continues without them.
fn random_bytes<const N: usize>() -> Result<[u8; N], Fault> {
    let mut bytes = [0; N];
    fill_random(&mut bytes)?;
    Ok(bytes)
}

fn fill_random(bytes: &mut [u8]) -> Result<(), Fault> {
    getrandom::fill(bytes).map_err(|error| Fault::message(format_args!("the system has no random bytes: {error}")))
}

// Digests ---------------------------------------------------------------------------------------------------------

/// Defines the function of an algorithm: `crypto.sha256(data [, encoding])`.
macro_rules! digest_function {
    ($algorithm:ident) => {
        Function::new(|call: &mut Call<'_>| {
            let encoding = encoding(call, 2)?;
            Ok(encoding.encode(&digest(Algorithm::$algorithm, call.bytes(1)?)))
        })
    };
}

const MD5: Function = digest_function!(Md5);
const SHA1: Function = digest_function!(Sha1);
const SHA224: Function = digest_function!(Sha224);
const SHA256: Function = digest_function!(Sha256);
const SHA384: Function = digest_function!(Sha384);
const SHA512: Function = digest_function!(Sha512);

/// `crypto.hmac(algorithm, key, data [, encoding])`: returns the HMAC of `data`.
fn hmac(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    let (algorithm, encoding) = (algorithm(call, 1)?, encoding(call, 4)?);
    Ok(encoding.encode(&hmac_of(algorithm, call.bytes(2)?, call.bytes(3)?)))
}

/// `crypto.hash(algorithm [, key])`: returns an object that computes a digest; with a key, an HMAC.
fn hash(call: &mut Call<'_>) -> Result<New<Hash>, Fault> {
    let algorithm = algorithm(call, 1)?;
    let key = call.optional(2, Stack::bytes)?;
    let digest = key.map_or_else(|| Digest::new(algorithm), |key| Digest::with_key(algorithm, key));
    Ok(New::of(Hash(Box::new(digest))))
}

/// `hash:update(data)`: adds bytes. Returns the object.
fn update(call: &mut Call<'_>) -> Result<Argument, Fault> {
    let (hash, stack) = call.object_and_stack::<Hash>(1)?;
    hash.0.update(stack.bytes(2)?);
    Ok(Argument(1))
}

/// `hash:digest([encoding])`: returns the digest of the bytes that have been added. More bytes may be added afterwards.
fn digest_of_object(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    let encoding = encoding(call, 2)?;
    Ok(encoding.encode(&call.object::<Hash>(1)?.0.clone().finish()))
}

/// `crypto.equal(a, b)`: returns whether two strings are equal. The time does not depend on where they differ.
fn equal(call: &mut Call<'_>) -> Result<bool, Fault> {
    Ok(call.bytes(1)?.ct_eq(call.bytes(2)?).into())
}

// Random bytes ----------------------------------------------------------------------------------------------------

/// `crypto.random(n [, encoding])`: returns `n` random bytes.
fn random(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    let encoding = encoding(call, 2)?;
    let mut bytes = vec![0; call.integer_in(1, 0..=MAX_RANDOM, "number of bytes")? as usize];
    fill_random(&mut bytes)?;
    Ok(encoding.encode(&bytes))
}

/// `crypto.uuid([version])`: returns a new UUID, of version 4 (random) or 7 (time and random).
fn uuid(call: &mut Call<'_>) -> Result<String, Fault> {
    let version = call.optional(1, Stack::integer)?.unwrap_or(4);
    let builder = match version {
        4 => uuid::Builder::from_random_bytes(random_bytes()?),
        7 => uuid::Builder::from_unix_timestamp_millis(unix_millis(), &random_bytes()?),
        _ => return Err(Fault::argument(1, "version must be 4 or 7")),
    };
    Ok(builder.into_uuid().hyphenated().to_string())
}

// Encryption ------------------------------------------------------------------------------------------------------

/// Returns the key at argument 1.
fn key(stack: &Stack) -> Result<&[u8; sealed::KEY], Fault> {
    let bytes = stack.bytes(1)?;
    let wrong = || Fault::argument(1, format_args!("key must have {} bytes, not {}", sealed::KEY, bytes.len()));
    bytes.try_into().map_err(|_| wrong())
}

/// `crypto.encrypt(key, data [, context])`: returns the encrypted data, 40 bytes longer than `data`.
fn encrypt(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    let context = call.optional(3, Stack::bytes)?.unwrap_or_default();
    let sealed = sealed::seal(key(call)?, random_bytes()?, call.bytes(2)?, context);
    sealed.ok_or_else(|| Fault::argument(2, "data is too long"))
}

/// `crypto.decrypt(key, data [, context])`: returns the data that was encrypted with the same key and context; or nil,
/// a message, and `"corrupt"`.
fn decrypt(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    let context = call.optional(3, Stack::bytes)?.unwrap_or_default();
    let corrupt = || Failure::new("decrypt", "the key or the context is wrong, or the data was changed", "corrupt");
    Ok(sealed::open(key(call)?, call.bytes(2)?, context).ok_or_else(corrupt)?)
}

// Texts that represent bytes --------------------------------------------------------------------------------------

/// Defines a function that encodes bytes: `crypto.hex_encode(data)`.
macro_rules! encode_function {
    ($encoding:ident) => {
        Function::new(|call: &mut Call<'_>| Ok(Encoding::$encoding.encode(call.bytes(1)?)))
    };
}

/// Defines a function that decodes a text: `crypto.hex_decode(text)`. It returns nil, a message and `"invalid"` if the
/// text is invalid.
macro_rules! decode_function {
    ($encoding:ident, $call:literal, $wanted:literal) => {
        Function::new(|call: &mut Call<'_>| {
            let bytes = Encoding::$encoding.decode(call.bytes(1)?);
            Ok(bytes.ok_or_else(|| Failure::new($call, concat!("the text is not ", $wanted), "invalid"))?)
        })
    };
}

const HEX_ENCODE: Function = encode_function!(Hex);
const HEX_DECODE: Function = decode_function!(Hex, "hex_decode", "a sequence of pairs of hexadecimal digits");
const BASE64_ENCODE: Function = encode_function!(Base64);
const BASE64_DECODE: Function = decode_function!(Base64, "base64_decode", "base64");
const BASE64URL_ENCODE: Function = encode_function!(Base64Url);
const BASE64URL_DECODE: Function = decode_function!(Base64Url, "base64url_decode", "base64url");

/// Opens `lio.crypto.core`.
pub(crate) const OPEN: Function = Function::new(|_: &mut Call<'_>| {
    Ok(Module(functions! {
        md5: MD5, sha1: SHA1, sha224: SHA224, sha256: SHA256, sha384: SHA384, sha512: SHA512,
        hmac, hash, equal, random, uuid, encrypt, decrypt,
        hex_encode: HEX_ENCODE, hex_decode: HEX_DECODE,
        base64_encode: BASE64_ENCODE, base64_decode: BASE64_DECODE,
        base64url_encode: BASE64URL_ENCODE, base64url_decode: BASE64URL_DECODE,
    }))
});
