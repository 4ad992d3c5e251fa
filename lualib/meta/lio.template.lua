---@meta lio.template
-- Definitions of `lio.template` for the Lua language server. docs/build.lua generates docs/api/lio.template.md from
-- them.

---Renders templates in the language of Jinja (docs/templates.md).
---@class lio.template
local template = {}

---@class lio.TemplateOptions
---@field folder? string the folder of the templates, if it is not the first argument
---@field templates? table<string, string> templates without a file: their sources, by name
---@field globals? table<string, any> variables of every template
---@field autoescape? boolean true: values are escaped for HTML in every template; false: in none; default: by extension
---@field undefined? "lenient"|"strict"|"chainable" whether missing variables are errors; default `"lenient"`
---@field reload? boolean whether changed files are read again; default false: a file is read once
---@field fuel? integer|false steps that a rendering may take, 1 or more; default `5000000`; false: no limit
---@field recursion? integer limit of open loops (1 each), macros (4) and files (10), 1 to 500; default `200`
---@field trim_blocks? boolean whether the line break after a block is removed; default false
---@field lstrip_blocks? boolean whether spaces before a block at the start of a line are removed; default false
---@field keep_trailing_newline? boolean whether the line break at the end of a template is kept; default false

---Opens a folder of templates. Raises if the folder cannot be opened. A file is read when its template is first used;
---no file outside the folder is read.
---@param folder? string
---@param opts? lio.TemplateOptions
---@return lio.Views views
---@overload fun(opts: lio.TemplateOptions): lio.Views
function template.new(folder, opts) end

---The templates of a folder.
---@class lio.Views
local Views = {}

---Renders a template. Tables are lists or maps by the rules of `lio.json`; a value without a counterpart, such as a
---function, raises. A mistake in a template raises, with its file and line.
---@param name string a path below the folder, such as `"users/list.html"`
---@param data? table<string, any> the variables of the template
---@return string text
function Views:render(name, data) end

---Renders a template from a string, which may include and extend the templates of the folder.
---@param source string
---@param data? table<string, any>
---@param name? string used in messages; its extension decides about escaping; default `"string.html"`
---@return string text
function Views:render_string(source, data, name) end

---Closes the folder, which is an open descriptor. Views may also be declared `<close>`.
function Views:close() end

return template
