"""The Kafka protocol without any I/O: shapes of messages, bytes to shapes and back, errors, frames, batches, records.

`apis` what we speak, `schema` the shapes (generated), `messages` whole frames, `codec` the compiler behind them,
`framing` the splitter, `errors` the error tree, `layout` and `legacy` what kio's classes say.
Nothing is imported here: each user takes what it needs.
"""
