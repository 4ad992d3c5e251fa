//! The executable, as far as it needs the library's insides.

pub mod script;
