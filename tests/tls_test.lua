-- TLS on connections of `lio.net`: `net.listen` and `net.connect` with `tls`, `start_tls`, `lio.tls`.
local kit = require "tests.kit"
