---@meta lio.tls
-- Definitions of `lio.tls` for the Lua language server. docs/build.lua generates docs/api/lio.tls.md from them.

---TLS 1.2 and 1.3 (RFC 5246, RFC 8446) of servers and clients. `net.listen`, `net.connect`, `c:start_tls`,
---`app:listen`, `app:run` and `lio.http.client` have an option `tls`: a table of the options of `tls.server` or
---`tls.client`, or an object that these functions have made. An object reads its files once, and a client object
---resumes sessions between its connections. A failure is `nil, message, "tls"`; misuse raises. The guide is
---`docs/tls.md`.
---@class lio.tls
local tls = {}

---A certificate chain and its private key: paths of files, or texts, both in PEM. The server's own certificate comes
---first in the chain.
---@class lio.TlsIdentity
---@field cert? string
---@field key? string

---@class lio.TlsServerOptions: lio.TlsIdentity
---@field certs? lio.TlsIdentity[] further certificates; a client gets the one for the name that it requests (SNI)
---@field alpn? string[] protocols to negotiate (RFC 7301), the preferred one first; each has 1 to 255 bytes
---@field client_ca? string|string[] authorities of client certificates; paths or texts; clients must then have one
---@field client? "required"|"optional" whether a client must have a certificate, with `client_ca`; default `"required"`
---@field crl? string|string[] lists of revoked client certificates; paths or texts
---@field min_version? "1.2"|"1.3" default `"1.2"`
---@field handshake_timeout? number seconds for a handshake, above 0; default `10`
---@field max_handshakes? integer handshakes of a listener at the same time, at least 1; default `4096`

---Creates TLS of a server. It reads its files again when they change: they are checked at most every five seconds, when
---a connection arrives. A client that requests no name, or a name that no certificate has, gets the first certificate.
---@param opts lio.TlsServerOptions
---@return lio.TlsServer? server
---@return string? message
---@return string? code `"tls"`
---@return_overload lio.TlsServer
---@return_overload nil, string, string
function tls.server(opts) end

---@class lio.TlsClientOptions: lio.TlsIdentity
---@field ca? string|string[] authorities to trust, paths or texts; default: those of the system
---@field crl? string|string[] lists of revoked certificates; paths or texts
---@field pins? string[] public keys, one of which the chain must contain: `"sha256/"` and the digest in base64
---@field alpn? string[] protocols to offer, the preferred one first
---@field server_name? string name to request and to verify; default: the host to which the client connects
---@field min_version? "1.2"|"1.3" default `"1.2"`
---@field dangerously_skip_verification? boolean whether to accept any certificate; logged; default `false`

---Creates TLS of a client. `cert` and `key` are the client's own certificate, for mutual TLS.
---@param opts? lio.TlsClientOptions
---@return lio.TlsClient? client
---@return string? message
---@return string? code `"tls"`
---@return_overload lio.TlsClient
---@return_overload nil, string, string
function tls.client(opts) end

---TLS of a server, the result of `tls.server`.
---@class lio.TlsServer
local TlsServer = {}

---Reads the files again, for later connections. On failure, the server keeps its certificates.
---@return true? ok
---@return string? message
---@return string? code `"tls"`
function TlsServer:reload() end

---Reads the files again if one of them has changed. Checks the files at most every five seconds.
---@return boolean? reloaded whether the files were read; nil on failure
---@return string? message
---@return string? code `"tls"`
function TlsServer:reload_if_changed() end

---TLS of a client, the result of `tls.client`. It has no methods.
---@class lio.TlsClient

---A description of TLS on a connection: the result of `c:tls()`, and `req.tls`.
---@class lio.TlsInfo
---@field version "1.2"|"1.3"
---@field cipher string name of the cipher suite, such as `TLS_AES_128_GCM_SHA256`
---@field resumed boolean whether an earlier session was resumed, without a new verification
---@field alpn? string protocol that was negotiated; nil if there is none
---@field server_name? string name that the client has requested; nil if there is none, and on the side of the client
---@field peer? lio.TlsCertificate certificate of the peer; nil if the peer has none

---A certificate of a peer. The times are in seconds since the Unix epoch.
---@class lio.TlsCertificate
---@field subject string distinguished name (RFC 4514), such as `CN=worker`
---@field issuer string distinguished name of the authority
---@field names string[] host names and IP addresses
---@field serial string lower-case hexadecimal digits
---@field not_before integer
---@field not_after integer
---@field fingerprint string SHA-256 digest of the certificate, in lower-case hexadecimal digits
---@field der string the certificate in DER

---@class lio.TlsRequest
---@field names? string[] host names and IP addresses; default `{ "localhost", "127.0.0.1", "::1" }`
---@field subject? string common name of the subject; default: the first name
---@field days? number days until it expires, at most 36500; default `365`
---@field start? number days until it becomes valid; negative: days ago; default `0`

---Creates a certificate that is signed with its own key, for development and tests. Clients must trust the certificate
---itself: `{ ca = certificate }`.
---@param opts? lio.TlsRequest
---@return string? certificate in PEM
---@return string? key in PEM; on failure the message
---@return string? code `"tls"`
---@return_overload string, string
---@return_overload nil, string, string
function tls.self_signed(opts) end

---Creates an authority that exists only in this program, for tests. It is valid for a year.
---@param name? string default `"lio development authority"`
---@return lio.Authority authority
function tls.authority(name) end

---An authority, which signs certificates.
---@class lio.Authority
---@field cert string the authority's own certificate in PEM, which clients and servers trust with `ca` or `client_ca`
local Authority = {}

---Creates a certificate that the authority has signed, and its key. Servers and clients can use it.
---@param opts? lio.TlsRequest
---@return string? certificate in PEM
---@return string? key in PEM; on failure the message
---@return string? code `"tls"`
---@return_overload string, string
---@return_overload nil, string, string
function Authority:issue(opts) end

---Used by the library.
---@private
function tls.server_of(call, value) end

---Used by the library.
---@private
function tls.client_of(call, value) end

---Used by the library.
---@private
function tls.settings_of(server) end

---Returns whether a value is a result of `tls.server`.
---@param value any
---@return boolean
function tls.is_server(value) end

return tls
