//! A hint for scripts that call a function of `ltask` that only services have.

use crate::modules::ltask::is_service_function;

/// Returns a hint for the error `FILE:LINE: attempt to call a nil value (field 'NAME')` of a program outside of a
/// service, if that line calls `ltask.NAME`, a function that only services have.
pub(super) fn service_hint(message: &str) -> Option<String> {
    let (position, name) = message.lines().next()?.split_once(": attempt to call a nil value (field '")?;
    let name = name.strip_suffix("')").filter(|name| is_service_function(name))?;
    let (file, line) = position.rsplit_once(':')?;
    let text = std::fs::read_to_string(file).ok()?;
    let code = text.lines().nth(line.parse::<usize>().ok()?.checked_sub(1)?)?;
    let call = format!("ltask.{name}");
    let hint = format!("\n{call} works only in a service: run the script with 'lio --service {file}'");
    code.contains(&call).then_some(hint)
}
