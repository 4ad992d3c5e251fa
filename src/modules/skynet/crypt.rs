//! `skynet.crypt`. Errors contain skynet's texts where programs may search for them.

use crate::codec::skynet_crypt::{self as codec, BLOCK, Eight, Padding};
use crate::lua::{Call, Fault, Function, Module, Stack, functions};
use hmac::{Hmac, KeyInit, Mac};
use sha1::{Digest, Sha1};

/// Reads a string of eight bytes from argument `index`.
fn eight(stack: &Stack, index: i32, what: &str) -> Result<Eight, Fault> {
    let bytes = stack.bytes(index)?;
    bytes.try_into().map_err(|_| Fault::argument(index, format_args!("{what} must have 8 bytes, got {}", bytes.len())))
}

/// Reads the optional padding of DES from argument 3: 0 for ISO 7816-4, 1 for PKCS #7.
fn padding(call: &Call<'_>) -> Result<Padding, Fault> {
    let number = call.optional(3, |call, at| call.integer_in(at, 0..=1, "padding"))?;
    Ok(if number == Some(1) { Padding::Pkcs7 } else { Padding::Iso7816 })
}

fn boxed(bytes: Eight) -> Vec<u8> {
    bytes.to_vec()
}

/// `crypt.hashkey(text)`: returns eight bytes, which hash the text.
fn hashkey(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    Ok(boxed(codec::hash_key(call.bytes(1)?)))
}

/// `crypt.randomkey()`: returns eight random bytes from the system, never all zeros.
fn randomkey(_: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    let mut key = [0; 8];
    getrandom::fill(&mut key).map_err(|error| Fault::message(format_args!("randomkey: {error}")))?;
    if key == [0; 8] {
        key[0] = 1;
    }
    Ok(boxed(key))
}

/// `crypt.desencode(key, text[, padding])`: encrypts a text.
fn desencode(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    let (key, padding) = (eight(call, 1, "the key")?, padding(call)?);
    Ok(codec::des_encode(key, call.bytes(2)?, padding))
}

/// `crypt.desdecode(key, text[, padding])`: decrypts a text; raises if it is invalid.
fn desdecode(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    let (key, padding, text) = (eight(call, 1, "the key")?, padding(call)?, call.bytes(2)?);
    if text.is_empty() || !text.len().is_multiple_of(BLOCK) {
        return Err(Fault::argument(2, format_args!("Invalid des crypt text length {}", text.len())));
    }
    codec::des_decode(key, text, padding).ok_or_else(|| Fault::argument(2, "Invalid des crypt text"))
}

/// `crypt.hexencode(bytes)`: returns hexadecimal digits in lower case.
fn hexencode(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    Ok(codec::hex_encode(call.bytes(1)?))
}

/// `crypt.hexdecode(text)`: returns the bytes; raises if the text is invalid.
fn hexdecode(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    let text = call.bytes(1)?;
    if text.len() % 2 != 0 {
        return Err(Fault::argument(1, format_args!("Invalid hex text size {}", text.len())));
    }
    codec::hex_decode(text).ok_or_else(|| Fault::argument(1, "Invalid hex text"))
}

/// `crypt.hmac64(challenge, secret)`: returns the code of skynet's login protocol.
fn hmac64(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    Ok(boxed(codec::hmac64(eight(call, 1, "the challenge")?, eight(call, 2, "the secret")?)))
}

/// `crypt.hmac64_md5(challenge, secret)`: returns the code that is built from a complete MD5.
fn hmac64_md5(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    Ok(boxed(codec::hmac64_md5(eight(call, 1, "the challenge")?, eight(call, 2, "the secret")?)))
}

/// `crypt.hmac_hash(key, text)`: returns the `hmac64` of the text's hash.
fn hmac_hash(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    let key = eight(call, 1, "the key")?;
    Ok(boxed(codec::hmac64(codec::hash_key(call.bytes(2)?), key)))
}

/// The error for a number of the key exchange that is 0.
fn zero(index: i32) -> Fault {
    Fault::argument(index, "Can't be 0")
}

/// `crypt.dhexchange(private)`: returns the public number for a private one.
fn dhexchange(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    let public = codec::exchange(eight(call, 1, "the private number")?);
    public.map(boxed).ok_or_else(|| zero(1))
}

/// `crypt.dhsecret(public, private)`: returns the secret that both sides get.
fn dhsecret(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    let (public, private) = (eight(call, 1, "the public number")?, eight(call, 2, "the private number")?);
    let secret = codec::secret(public, private);
    secret.map(boxed).ok_or_else(|| zero(if public == [0; 8] { 1 } else { 2 }))
}

/// `crypt.base64encode(bytes)`: returns Base64 with padding.
fn base64encode(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    Ok(codec::base64_encode(call.bytes(1)?))
}

/// `crypt.base64decode(text)`: returns the bytes; raises if the text is invalid.
fn base64decode(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    codec::base64_decode(call.bytes(1)?).ok_or_else(|| Fault::argument(1, "Invalid base64 text"))
}

/// `crypt.sha1(text)`: returns the 20 bytes of the SHA-1.
fn sha1(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    Ok(Sha1::digest(call.bytes(1)?).to_vec())
}

/// `crypt.hmac_sha1(key, text)`: returns the 20 bytes of the code of RFC 2104.
fn hmac_sha1(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    // The only error is an invalid length of the key; every length is valid for this code.
    let code = Hmac::<Sha1>::new_from_slice(call.bytes(1)?).map_err(|_| Fault::argument(1, "invalid key"))?;
    Ok(code.chain_update(call.bytes(2)?).finalize().into_bytes().to_vec())
}

/// `crypt.xor_str(text, key)`: returns the exclusive or of the text and the repeated key.
fn xor_str(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    let (text, key) = (call.bytes(1)?, call.bytes(2)?);
    if key.is_empty() {
        return Err(Fault::argument(2, "Can't xor empty string"));
    }
    Ok(text.iter().zip(key.iter().cycle()).map(|(text, key)| text ^ key).collect())
}

/// Opens `skynet.crypt.core`. `lualib/skynet/crypt.lua` adds the table `padding`.
pub(crate) const OPEN: Function = Function::new(|_: &mut Call<'_>| {
    Ok(Module(functions! {
        hashkey, randomkey, desencode, desdecode, hexencode, hexdecode, hmac64, hmac64_md5, hmac_hash, dhexchange,
        dhsecret, base64encode, base64decode, sha1, hmac_sha1, xor_str,
    }))
});
