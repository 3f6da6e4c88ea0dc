"""One run as one page: a self-contained HTML document without scripts that a browser shows from a file, a mail or a strict
server. `content` is what it says, `plots` draws the curves, `page.html.jinja` is how it looks."""
