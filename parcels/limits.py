"""How much a client may send. docs/limits.md lists each limit, and the answer above it.

Bytes unless another unit is given. The body's own limit is Django's DATA_UPLOAD_MAX_MEMORY_SIZE.
"""

# Of nested JSON containers; the dialect's own have five levels. Python's parser and our renderer
# both fail near a thousand.
DEPTH = 50
# Commas and opening brackets of a body, which its values can't outnumber. A batch of 100 parcels
# with all their fields and 1,000 items has 20,000.
VALUES = 50_000
# Characters of a number. The longest that a client means is a double's or a 64-bit integer's 20.
NUMBER = 64
# Of a number with a fraction or an exponent, and one by it: PostgreSQL's JSON writes them out, in
# each answer, 1e308 as 309 digits.
MAGNITUDE = 1e16

# A sheet of 25 label pages; also what keeps a body within its limit. Counts colli, too.
PARCELS = 100
# A parcel with 100 items at their usual 300 bytes takes half of it. Each collo stores a copy.
PARCEL = 64 * 1024
# Kinds of goods in one parcel: more don't fit on its customs papers.
ITEMS = 100
# Of a whole request. Each takes 70 µs to validate: this many, as long as the parcels themselves.
ITEMS_IN_ALL = 1_000
# Of one item, as JSON. The dialect's own examples are a colour and a size.
PROPERTIES = 4 * 1024
# Of a parcel's goods, as JSON: for each so many a client that waits makes one read more.
GOODS = 8 * 1024

# Characters of a string, as the dialect has it; of a value in the query, too.
TEXT = 255
HS_CODE = 12
MID_CODE = 15
IDEMPOTENCY_KEY = 255
WEBHOOK_URL = 2_048
# A shorter key is not safe.
WEBHOOK_SECRET_MINIMUM = 16
# Each status change is sent to every one of them.
WEBHOOKS = 10

# Within PostgreSQL's integer, and far above any real id.
INTEGER = 2**31 - 1
COLLI = 20
INSURED_VALUE = 5_000

# Characters. 100 ids of 18 digits take half of it.
QUERY = 4_096
# Names and values in a query; the longest list of filters has nine.
PARAMETERS = 100
# Characters; the longest that is an address here has 100.
PATH = 512
# Characters of the address that a redirect leads to, where the request's own is quoted, perhaps
# twice. nginx has 4 KB for all headers of an answer.
REDIRECT = 2_048
IDS = 100
# Digits of an id: every number of so many fits a bigint.
ID_DIGITS = 18
# What REST framework reads of Accept (characters, media types); the rest is ignored.
ACCEPT = 8_192
ACCEPT_TYPES = 64

# Keys that don't fit, by address and minute in each process; each costs a query. A shop whose key
# was changed tries a few times.
FAILED_KEYS = 60

# The front's (deploy/base/nginx): connections of one address, of these with large bodies, and
# of these that fetch documents.
CONNECTIONS = 256
LARGE_UPLOADS = 16
DOCUMENTS = 16
