-- The failures that clients of tests/chaos may see while faults are injected. Any other outcome is reported.

local M = {}

local function set(text)
  local all = {}
  for word in text:gmatch "%S+" do all[word] = true end
  return all
end

-- Codes of failed requests and connections.
local CODES <const> = set [[timeout closed reset refused truncated unreachable EMFILE ENFILE ENOBUFS ENOMEM ENOSPC
  ETIMEDOUT EPIPE EHOSTUNREACH ENETUNREACH ENOTCONN]]
CODES["not available"] = true -- connect(2): EADDRNOTAVAIL

-- Statuses that always count as a refusal: timeouts of the server, an overloaded server, a full disk.
local STATUSES <const> = set "408 502 503 507"

-- Messages of responses 400 and 500 that the injected faults cause.
local MESSAGES <const> = {
  "not enough memory", "Too many open files", "No buffer space", "Cannot allocate memory", "No space left",
  "Interrupted system call", "Input/output error", "Disk quota", "Resource temporarily unavailable", "is dead",
  "EMFILE", "ENFILE", "ENOMEM", "the upload cannot be stored", "400 failed", "ended early", "closed", "reset",
}

--- Returns whether a failure without a response is expected. epoll_ctl(2) fails with ENOSPC if too many descriptors are
-- watched.
function M.is_expected_code(code, message)
  return CODES[code] or code == "failed" and message:find "event_add: No space left" ~= nil
end

--- Returns whether a response without acknowledgement is expected during faults.
function M.is_expected(status, text)
  if STATUSES[tostring(status)] then return true end
  if status ~= 500 and status ~= 400 then return false end
  for _, message in ipairs(MESSAGES) do
    if text:find(message, 1, true) then return true end
  end
  return false
end

return M
