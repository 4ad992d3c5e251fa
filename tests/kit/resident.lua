-- `resident([pid])`: returns the resident memory of a process (default: this one) in KiB, see proc_pid_status(5).
-- Programs of suites may load this file, too.

return function(pid)
  local file <close> = assert(io.open(("/proc/%s/status"):format(pid or "self")))
  return tonumber(file:read "a":match "VmRSS:%s*(%d+)")
end
