-- File upload: `lio examples/upload.lua`, then open http://127.0.0.1:8080/ in a browser and drop files on the page, or
-- send a file with `curl -F file=@photo.jpg http://127.0.0.1:8080/`. The page lists the uploads, with links to them.
-- With another port and folder: `lio examples/upload.lua 8081 photos`. If the folder does not exist, it is created.

local web = require "lio.webserver"

local port, folder = tonumber((...) or 8080), select(2, ...) or "uploads"
local LARGEST <const> = 1024 * 1024 * 1024 -- maximum bytes of one upload

assert(os.execute("mkdir -p '" .. folder:gsub("'", "'\\''") .. "'"))

local app = web.new { body = LARGEST }
local uploads = {} -- in order: { name =, size = }
local by_name = {}

local ESCAPES <const> = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;", ["'"] = "&#39;" }
local function escape(text) return (text:gsub("[&<>\"']", ESCAPES)) end

local function escape_url(text)
  return (text:gsub("[^%w%-._~]", function(c) return ("%%%02X"):format(c:byte()) end))
end

-- Returns a safe file name. It contains letters, digits, `-`, `_` and dots, and does not start with a dot. Special
-- characters become `_`; if `basename` is not UTF-8, so do its non-ASCII bytes.
local function safe_name(basename)
  local name = utf8.len(basename) and basename or basename:gsub("[\128-\255]", "_")
  name = name:gsub("[^%w%-_.\128-\255]", "_"):gsub("^%.+", ""):sub(-200)
  -- `sub` may have split the first character.
  name = name:gsub("^[\128-\191]+", "")
  return name ~= "" and name or "file"
end

-- Moves a part to the folder. If its name is taken, adds a number to the name. Returns the name, or nil and a message.
local function store(part)
  local name = safe_name(part.basename)
  local stem, extension = name:match("^(.+)(%.[^.]*)$")
  for number = 1, 1000 do
    local tried = number == 1 and name or ("%s-%d%s"):format(stem or name, number, extension or "")
    local ok, message, code = part:move(folder .. "/" .. tried)
    if ok then return tried end
    if code ~= "exists" then return nil, message end
  end
  return nil, "too many files of that name"
end

local PAGE <const> = [[
<!doctype html>
<html lang=en>
<meta charset=utf-8>
<meta name=viewport content="width=device-width">
<title>Upload</title>
<style>
  :root { color-scheme: light dark }
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 40rem; margin: 3rem auto; padding: 0 1rem; color: #223 }
  form { border: 2px dashed #9ab; border-radius: 12px; padding: 1rem 1.5rem; background: #f7f9fb }
  form.over { border-color: #27c; background: #eaf2fc }
  input { font: inherit; max-width: 100% }
  button { font: inherit; padding: .4rem 1.4rem; border: 0; border-radius: 8px; background: #27c; color: #fff }
  button:disabled { opacity: .5 }
  progress { width: 100%; margin-top: 1rem }
  table { width: 100%; margin-top: 2rem; border-collapse: collapse }
  th, td { padding: .4rem; text-align: left; overflow-wrap: anywhere }
  td { border-top: 1px solid #dde }
  th + th, td + td { text-align: right; white-space: nowrap }
  td + td { color: #678 }
  @media (prefers-color-scheme: dark) {
    body { background: #12161c; color: #e6e9ee }
    form { border-color: #456; background: #1a2028 }
    form.over { background: #1c2c40 }
    a { color: #7ab8ff }
    td { border-color: #2a323c }
    td + td { color: #9ab }
  }
</style>
<main>
<h1>Upload</h1>
<form method=post enctype=multipart/form-data>
  <p>Drop files here, or choose some: at most %LARGEST at once.</p>
  <p><label>Files <input type=file name=file multiple required></label></p>
  <p><button>Upload</button></p>
  <progress value=0 max=1 aria-label="Progress of the upload" hidden></progress>
  <div role=status></div>
</form>
%UPLOADS</main>
<script>
  const form = document.querySelector("form"), bar = form.querySelector("progress")
  const button = form.querySelector("button")
  const status = form.querySelector("[role=status]")
  // A second upload has to wait until the first has ended.
  function send(data) {
    if (button.disabled) return
    button.disabled = true
    status.textContent = ""
    const request = new XMLHttpRequest()
    request.open("POST", "/")
    request.upload.onprogress = e => { bar.hidden = false; bar.value = e.loaded / e.total }
    request.onload = () => {
      if (request.status < 400) location.reload()
      else status.textContent = request.responseText
    }
    request.onerror = () => { status.textContent = "The connection failed." }
    request.onloadend = () => { bar.hidden = true; button.disabled = false }
    request.send(data)
  }
  form.onsubmit = e => { e.preventDefault(); send(new FormData(form)) }
  form.ondragover = e => { e.preventDefault(); form.classList.add("over") }
  form.ondragleave = () => form.classList.remove("over")
  form.ondrop = e => {
    e.preventDefault()
    form.classList.remove("over")
    const data = new FormData()
    for (const file of e.dataTransfer.files) data.append("file", file)
    send(data)
  }
</script>
</html>
]]

-- The list of the uploads, whose rows replace `%s`.
local TABLE <const> = [[
<table aria-label="Uploads">
<thead><tr><th scope=col>Name<th scope=col>Size</thead>
<tbody>
%s</tbody>
</table>
]]

local function size_text(size)
  for _, unit in ipairs { "bytes", "KiB", "MiB" } do
    if size < 1024 then return (unit == "bytes" and "%d %s" or "%.1f %s"):format(size, unit) end
    size = size / 1024
  end
  return ("%.1f GiB"):format(size)
end

app:get("/", function(_, res)
  local rows = {}
  for _, upload in ipairs(uploads) do
    rows[#rows + 1] = ('<tr><td><a href="/files/%s">%s</a><td>%s\n'):format(
      escape_url(upload.name), escape(upload.name), size_text(upload.size))
  end
  local list = "<p>There are no uploads yet.</p>\n"
  if #rows > 0 then list = TABLE:format(table.concat(rows)) end
  local values = { LARGEST = size_text(LARGEST), UPLOADS = list }
  res:header("Content-Type", "text/html; charset=utf-8")
  return (PAGE:gsub("%%(%u+)", values))
end)

app:post("/", function(req, res)
  local _, files = req:form { dir = folder }
  if not _ then return end -- the response has the reason
  if #files == 0 then return 400, "No file was chosen.\n" end
  local names = {}
  for _, part in ipairs(files) do
    local name, message = store(part)
    if not name then error("cannot store an upload: " .. message) end
    by_name[name] = { name = name, size = part.size }
    table.insert(uploads, by_name[name])
    names[#names + 1] = name
  end
  -- A browser is redirected to the list. Other clients get the names of the stored files.
  if (req.headers.accept or ""):find("text/html", 1, true) then return res:redirect("/", 303) end
  return 201, table.concat(names, "\n") .. "\n"
end)

-- Only uploaded files can be fetched, and browsers do not run them as a page of this site.
app:get("/files/:name", function(req, res)
  local upload = by_name[req.params.name]
  local file = upload and io.open(folder .. "/" .. upload.name, "rb")
  if not file then return 404, "Not Found\n" end
  res:header("Content-Type", "application/octet-stream")
  res:header("X-Content-Type-Options", "nosniff")
  res:header("Content-Disposition", "attachment; filename*=UTF-8''" .. escape_url(upload.name))
  res:header("Content-Length", upload.size)
  local _ <close> = file
  while true do
    local piece = file:read(65536)
    if not piece or not res:write(piece) then return end
  end
end)

app:run("127.0.0.1:" .. port)
