//! Hashes of passwords: Argon2id (RFC 9106) as PHC strings, `$argon2id$v=19$m=19456,t=2,p=1$salt$hash`. A hash contains
//! its parameters, so a program can change the parameters of new hashes at any time.

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{Error, PasswordHasher as _, PasswordVerifier as _};
use argon2::{Algorithm, Argon2, Params, Version};

/// The length of a salt in bytes, as RFC 9106 section 3.1 recommends.
pub(crate) const SALT: usize = 16;

/// The bounds of the parameters, also of the hashes that are verified: a hash must not exhaust the memory.
pub(crate) const MEMORY: std::ops::RangeInclusive<u32> = 8..=1 << 22;
pub(crate) const ITERATIONS: std::ops::RangeInclusive<u32> = 1..=1 << 16;
pub(crate) const PARALLELISM: std::ops::RangeInclusive<u32> = 1..=255;

/// The cost of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    /// The memory in KiB, at least 8 for each lane.
    pub(crate) memory: u32,
    /// How often the memory is filled.
    pub(crate) iterations: u32,
    /// The number of lanes.
    pub(crate) parallelism: u32,
}

impl Default for Cost {
    /// 19 MiB, 2 iterations and one lane: the recommendation of OWASP.
    fn default() -> Cost {
        Cost { memory: 19 * 1024, iterations: 2, parallelism: 1 }
    }
}

/// Why a password was not hashed or not compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The text is not the hash of a password.
    NotAHash,
    /// There is not enough memory.
    NoMemory,
}

/// A hash whose parameters are within the bounds.
#[derive(Clone, Debug)]
pub(crate) struct Hash {
    hash: PasswordHash,
    cost: Cost,
}

impl Hash {
    /// Parses a PHC string of Argon2 (`argon2id`, `argon2i` or `argon2d`).
    pub(crate) fn parse(text: &[u8]) -> Option<Hash> {
        let hash = PasswordHash::new(std::str::from_utf8(text).ok()?).ok()?;
        Algorithm::new(hash.algorithm.as_str()).ok()?;
        Version::try_from(hash.version.unwrap_or(Version::V0x10.into())).ok()?;
        let params = Params::try_from(&hash).ok()?;
        let cost = Cost { memory: params.m_cost(), iterations: params.t_cost(), parallelism: params.p_cost() };
        (hash.salt.is_some() && hash.hash.is_some() && cost.is_valid()).then_some(Hash { hash, cost })
    }

    /// Whether new hashes with this cost differ from this hash in their algorithm or in their parameters.
    pub(crate) fn is_outdated(&self, cost: Cost) -> bool {
        let is_current = self.hash.algorithm.as_str() == Algorithm::Argon2id.as_str()
            && self.hash.version == Some(Version::V0x13.into());
        !is_current || self.cost != cost
    }

    /// Returns whether this is the hash of `password`.
    pub(crate) fn verify(&self, password: &[u8]) -> Result<bool, Refusal> {
        match Argon2::default().verify_password(password, &self.hash) {
            Ok(()) => Ok(true),
            Err(Error::PasswordInvalid) => Ok(false),
            Err(Error::OutOfMemory) => Err(Refusal::NoMemory),
            Err(_) => Err(Refusal::NotAHash),
        }
    }
}

impl Cost {
    /// Whether the parameters are within the bounds, and the memory is enough for the lanes.
    pub(crate) fn is_valid(&self) -> bool {
        MEMORY.contains(&self.memory)
            && ITERATIONS.contains(&self.iterations)
            && PARALLELISM.contains(&self.parallelism)
            && self.memory >= 8 * self.parallelism
    }

    /// Returns the hash of a password as a PHC string. The cost must be valid, and the salt random.
    pub(crate) fn hash(self, password: &[u8], salt: [u8; SALT]) -> Result<String, Refusal> {
        let params = Params::new(self.memory, self.iterations, self.parallelism, None);
        let params = params.expect("a valid cost");
        let hash = Argon2::new(Algorithm::Argon2id, Version::V0x13, params).hash_password_with_salt(password, &salt);
        match hash {
            Ok(hash) => Ok(hash.to_string()),
            // The password has at most as many bytes as a Lua string, and all other arguments are valid.
            Err(_) => Err(Refusal::NoMemory),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHEAP: Cost = Cost { memory: 64, iterations: 1, parallelism: 2 };

    #[test]
    fn a_password_is_verified_with_the_parameters_of_its_hash() {
        let text = CHEAP.hash(b"secret", [7; SALT]).unwrap();
        assert!(text.starts_with("$argon2id$v=19$m=64,t=1,p=2$BwcHBwcHBwcHBwcHBwcHBw$"), "{text}");
        let hash = Hash::parse(text.as_bytes()).unwrap();
        assert_eq!(hash.verify(b"secret"), Ok(true));
        assert_eq!(hash.verify(b"Secret"), Ok(false));
        assert_eq!(hash.verify(b""), Ok(false));
        assert!(!hash.is_outdated(CHEAP));
        assert!(hash.is_outdated(Cost { iterations: 2, ..CHEAP }));
    }

    /// Made by the reference implementation (its test suite, version 0x13).
    #[test]
    fn hashes_of_other_implementations_are_verified() {
        for (text, is_outdated) in [
            ("$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc", false),
            ("$argon2i$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$wWKIMhR9lyDFvRz9YTZweHKfbftvj+qf+YFY4NeBbtA", true),
        ] {
            let hash = Hash::parse(text.as_bytes()).unwrap();
            assert_eq!(hash.verify(b"password"), Ok(true), "{text}");
            assert_eq!(hash.verify(b"passwore"), Ok(false), "{text}");
            assert_eq!(hash.is_outdated(Cost { memory: 65536, iterations: 2, parallelism: 1 }), is_outdated, "{text}");
        }
    }

    #[test]
    fn texts_that_are_no_hash_are_refused() {
        let salt_and_hash = "c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";
        for head in [
            "$argon2id$v=19$m=4294967295,t=2,p=1$",
            "$argon2id$v=19$m=8,t=2,p=2$",
            "$argon2id$v=19$m=65536,t=65537,p=1$",
            "$argon2id$v=19$m=65536,t=0,p=1$",
            "$argon2id$v=18$m=65536,t=2,p=1$",
            "$argon2x$v=19$m=65536,t=2,p=1$",
            "$scrypt$ln=16,r=8,p=1$",
            "$2b$12$",
            "",
        ] {
            assert!(Hash::parse(format!("{head}{salt_and_hash}").as_bytes()).is_none(), "{head}");
        }
        for text in ["", "$", "secret", "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ", "$argon2id", "\u{fffd}$"] {
            assert!(Hash::parse(text.as_bytes()).is_none(), "{text}");
        }
        assert!(Hash::parse(b"\xFF").is_none());
    }
}
