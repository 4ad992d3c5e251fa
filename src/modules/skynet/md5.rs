//! `md5`: the module that skynet contains.

use crate::codec::skynet_crypt::hex_encode;
use crate::lua::{Call, Fault, Function, Module, functions};
use hmac::{Hmac, KeyInit, Mac};
use md5::{Digest, Md5};

/// `md5.sum(text)`: returns the 16 bytes of the MD5.
fn sum(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    Ok(Md5::digest(call.bytes(1)?).to_vec())
}

/// `md5.sumhexa(text)`: returns the MD5 as 32 hexadecimal digits.
fn sumhexa(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    Ok(hex_encode(&Md5::digest(call.bytes(1)?)))
}

/// `md5.exor(a, b)`: returns the exclusive or of two strings of the same length.
fn exor(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    let (a, b) = (call.bytes(1)?, call.bytes(2)?);
    if a.len() != b.len() {
        return Err(Fault::argument(2, "lengths are different"));
    }
    Ok(a.iter().zip(b).map(|(a, b)| a ^ b).collect())
}

/// `md5.hmacmd5(text, key)`: returns the code of RFC 2104 as 32 hexadecimal digits.
fn hmacmd5(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    let (text, key) = (call.bytes(1)?, call.bytes(2)?);
    // The only error is an invalid length of the key; every length is valid for this code.
    let code = Hmac::<Md5>::new_from_slice(key).map_err(|_| Fault::argument(2, "invalid key"))?;
    Ok(hex_encode(&code.chain_update(text).finalize().into_bytes()))
}

/// Opens `md5`.
pub(crate) const OPEN: Function =
    Function::new(|_: &mut Call<'_>| Ok(Module(functions! { sum, sumhexa, exor, hmacmd5 })));
