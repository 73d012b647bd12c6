"""One file of settings for every strategy and process; what differs comes from the environment.

The variables are listed with their meaning in docs/operations.md.
"""

from pathlib import Path
from urllib.parse import quote

from django.conf import global_settings
from django.core.exceptions import ImproperlyConfigured

from carriers.adapters import CODES
from shipping import brokers, env, logs

BASE_DIR = Path(__file__).resolve().parent.parent
RUN_DIR = Path(env.text("RUN_DIR", str(BASE_DIR / ".run")))
# Where each process keeps its metrics, for /metrics of any of them to add up. The library reads
# this variable when it is first imported, so it is set before any app is.
METRICS_DIR = env.directory("PROMETHEUS_MULTIPROC_DIR", RUN_DIR / "metrics")

DEBUG = env.boolean("DEBUG", False)
# DEMO is what `make run` sets: on loopback only, it lifts what needs TLS or a public name.
DEMO = env.boolean("DEMO", False)
_DEVELOPMENT_SECRET = "development only: " + "x" * 50 if DEBUG or DEMO else None

SECRET_KEY = env.secret("SECRET_KEY", development=_DEVELOPMENT_SECRET)
SECRET_KEY_FALLBACKS = env.secrets("SECRET_KEY_FALLBACKS")
ALLOWED_HOSTS = env.words("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
# Where the processes listen and what they are called: in the demo secrets are known to all.
_hosts = {env.text("BIND_HOST", "127.0.0.1"), *ALLOWED_HOSTS}
if DEMO and not _hosts <= {"localhost", "127.0.0.1", "::1", "[::1]"}:
    raise ImproperlyConfigured("DEMO=1 is for loopback, and BIND_HOST or ALLOWED_HOSTS is not")
PUBLIC_URL = env.origin("PUBLIC_URL")
# Seconds of a wait, and of a call to a carrier or receiver. The shipped servers and containers cut
# longer ones when they stop or reload: docs/operations.md says what else to raise. A measurement
# stops nothing meanwhile.
_LONGEST_WAIT, _LONGEST_CALL = (env.LONGEST, env.LONGEST) if DEBUG or DEMO else (120, 30)

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "offload",
    "parcels",
    "shipping.apps.ShippingConfig",
]

MIDDLEWARE = [
    # Outermost: it must get the held answer after all others have set their headers.
    "offload.middleware.OffloadMiddleware",
    "shipping.middleware.RequestMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "shipping.static_files.static_files",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "shipping.urls"
WSGI_APPLICATION = "shipping.wsgi.application"
ASGI_APPLICATION = "shipping.asgi.application"
# Both forms of each address are routed; a redirect would lose a POST's body.
APPEND_SLASH = False

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

# Seconds, 0 for none: manage.py sets that for commands that may take their time. None of our own
# statements takes a second; waiting longer for a lock is useless. PostgreSQL counts in 32 bits of
# milliseconds.
DATABASE_STATEMENT_TIMEOUT = env.seconds("DATABASE_STATEMENT_TIMEOUT", 10, maximum=2_000_000)
DATABASES = {"default": env.database("DATABASE_URL", f"sqlite:///{quote(str(RUN_DIR))}/db.sqlite3")}
if DATABASES["default"]["ENGINE"].endswith("sqlite"):
    DATABASES["default"]["OPTIONS"] = {
        # A deferred transaction that turns into a writer can't wait for the lock: it fails at once.
        "transaction_mode": "IMMEDIATE",
        # Seconds to wait for the one writer; 20 outlasts a burst of 200 writing requests.
        "timeout": 20,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
    }
    # Django's own default, said because pytest-django knows it of Django's own engine only: test
    # processes side by side would get a file by the name of `test_` and the whole path.
    DATABASES["default"]["TEST"] = {"NAME": ":memory:"}
else:
    from shipping.postgresql import bounds

    # Threads that wait for a carrier give their connection back: 2,500 of them share a pool.
    DATABASES["default"]["OPTIONS"] |= bounds.options(
        pool=env.integer("DATABASE_POOL", 16, minimum=1),
        statement_timeout=DATABASE_STATEMENT_TIMEOUT,
        connect_timeout=env.integer("DATABASE_CONNECT_TIMEOUT", 5, minimum=2),
        # 1 where the pooler knows prepared statements (PgBouncer does from 1.21 on).
        prepare=env.choice("DATABASE_PREPARE", "auto", ("auto", "0", "1")),
        # libpq's own variable, which ours would replace.
        server_options=env.text("PGOPTIONS", ""),
        several="," in DATABASES["default"]["HOST"],
    )
    # They outlast their transaction, and would lose their server behind a pooler. We have none.
    DATABASES["default"]["DISABLE_SERVER_SIDE_CURSORS"] = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# One for all that follows, unless an address of its own is given.
REDIS_URL = env.store("REDIS_URL", "redis://127.0.0.1:6379/0")
GUARDS_URL = env.store("GUARDS_URL", REDIS_URL)

USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en-us"
USE_I18N = False

STATIC_URL = "static/"
STATIC_ROOT = RUN_DIR / "static"
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["shipping.authentication.KeyPairAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["parcels.views.request.AnyTypeJSONParser"],
    "DEFAULT_THROTTLE_CLASSES": ["parcels.views.request.AccountThrottle"],
    "DEFAULT_SCHEMA_CLASS": "parcels.openapi.document.DialectSchema",
    "EXCEPTION_HANDLER": "shipping.exceptions.answer_error",
    "UNAUTHENTICATED_USER": None,
    "URL_FORMAT_OVERRIDE": None,
}

SPECTACULAR_SETTINGS = {
    "TITLE": "Parcels",
    "VERSION": "2",
    "OAS_VERSION": "3.1.1",
    "PREPROCESSING_HOOKS": ["parcels.openapi.document.paths_of_the_dialect"],
    "POSTPROCESSING_HOOKS": ["parcels.openapi.document.add_components"],
    # The page's assets come from us: nothing is loaded from elsewhere.
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
}

# Requests of one account; an account's own limits win. See parcels.throttling.limits.
THROTTLE_READ = env.rate_limits("THROTTLE_READ", "1000/min")
THROTTLE_WRITE = env.rate_limits("THROTTLE_WRITE", "100/min,15/s")

# Announcing ----------------------------------------------------------------------------------
# What the fault suite shrinks all of these times by, so that their ratios stay the shipped ones;
# 1 everywhere else.
TIME_SCALE = env.share("TIME_SCALE", 1)
CARRIER_CALL_DEADLINE = env.seconds(
    "CARRIER_CALL_DEADLINE", 30 * TIME_SCALE, minimum=0.1, maximum=_LONGEST_CALL
)
CARRIER_CONNECT_TIMEOUT = env.seconds("CARRIER_CONNECT_TIMEOUT", 3 * TIME_SCALE, minimum=0.1)
# Over twice the call's deadline: a lease never runs out under a call that is still allowed to run.
ANNOUNCEMENT_LEASE = env.seconds("ANNOUNCEMENT_LEASE", 2.5 * CARRIER_CALL_DEADLINE, minimum=0.1)
# A parcel that could not be announced for a day needs a person.
ANNOUNCEMENT_MAX_AGE = env.seconds("ANNOUNCEMENT_MAX_AGE", 24 * 3600 * TIME_SCALE, minimum=1)
# If a carrier could not resolve it within an hour, a person must decide.
ANNOUNCEMENT_MAX_UNKNOWN_AGE = env.seconds(
    "ANNOUNCEMENT_MAX_UNKNOWN_AGE", 3600 * TIME_SCALE, minimum=1
)
# Seconds after its end when an announcement that was unknown once is looked at again: a second
# label may turn up after an absence was believed.
LATE_LOOKS = [600 * TIME_SCALE, 3600 * TIME_SCALE]
# Calls in flight per carrier, over all processes; CARRIER_BULKHEAD_<CODE> for one of them.
CARRIER_BULKHEAD = env.integer("CARRIER_BULKHEAD", 400, minimum=1)
CARRIERS: dict[str, dict[str, str | int]] = {
    code: {
        "url": env.text(
            f"CARRIER_URL_{code.upper()}", f"http://127.0.0.1:{port}" if DEBUG or DEMO else ""
        ),
        "bulkhead": env.integer(f"CARRIER_BULKHEAD_{code.upper()}", CARRIER_BULKHEAD, minimum=1),
    }
    for port, code in enumerate(CODES, start=9001)
}
# The circuit breakers. What each number is for, and why that number: carriers.breaker_rules.
CARRIER_BREAKER_WINDOW = env.integer("CARRIER_BREAKER_WINDOW", 20, minimum=1)
CARRIER_BREAKER_HORIZON = env.seconds("CARRIER_BREAKER_HORIZON", 60 * TIME_SCALE, minimum=1)
CARRIER_BREAKER_MIN_CALLS = env.integer(  # with more than the window has it would never open
    "CARRIER_BREAKER_MIN_CALLS", 10, minimum=1, maximum=CARRIER_BREAKER_WINDOW
)
CARRIER_BREAKER_SHARE = env.share("CARRIER_BREAKER_SHARE", 0.5)
CARRIER_BREAKER_OPEN_FOR = env.seconds("CARRIER_BREAKER_OPEN_FOR", 5 * TIME_SCALE, minimum=0.1)
CARRIER_BREAKER_RAMP_FOR = env.seconds("CARRIER_BREAKER_RAMP_FOR", 10 * TIME_SCALE, minimum=0.1)
CARRIER_BREAKER_RAMP_TO = env.seconds("CARRIER_BREAKER_RAMP_TO", 50 / TIME_SCALE, minimum=0.1)
CARRIER_BREAKER_RAMP_FROM = env.seconds(
    "CARRIER_BREAKER_RAMP_FROM", 2 / TIME_SCALE, minimum=0.1, maximum=CARRIER_BREAKER_RAMP_TO
)
# A probe buys nothing, so it may be cut short.
CARRIER_PROBE_DEADLINE = env.seconds(
    "CARRIER_PROBE_DEADLINE",
    min(10 * TIME_SCALE, CARRIER_CALL_DEADLINE),
    minimum=0.1,
    maximum=_LONGEST_CALL,
)
# Seconds. Redis answers in under a millisecond or is in trouble, and then each process guards by
# itself. Longer, and one that hangs would delay every call.
CARRIER_GUARD_TIMEOUT = env.seconds("CARRIER_GUARD_TIMEOUT", 0.25, minimum=0.01, maximum=1)
# What the guards' keys in Redis begin with. Queues, turns and throttles have no prefix: two
# deployments on one Redis need two database numbers. Its channels are common to all numbers, but
# what is sent there are random ids of holds: another deployment's hub knows none of them.
CARRIER_GUARD_PREFIX = env.text("CARRIER_GUARD_PREFIX", "carriers:")
# For the fault suite: parcels.faults and parcels.unguarded.
FAULT_GUARDS_OFF = env.words("FAULT_GUARDS_OFF")
FAULT_CRASH_AT = env.text("FAULT_CRASH_AT", "")
FAULT_PAUSE_AT = env.text("FAULT_PAUSE_AT", "")
_faults = FAULT_GUARDS_OFF or FAULT_CRASH_AT or FAULT_PAUSE_AT or TIME_SCALE != 1
if _faults and not (DEBUG or DEMO):
    raise ImproperlyConfigured("FAULT_… and TIME_SCALE are for the fault suite, with DEMO=1: unset")
# Where the carriers' tracking events are read from; empty: nowhere.
TRACKING_FEED_URL = env.text("TRACKING_FEED_URL", env.text("SIMULATOR_URL", ""))
# Ours, for accounts without a contract of their own with a carrier: no carrier sees another's.
HOUSE_CREDENTIALS = {
    code: env.credentials(
        f"CARRIER_CREDENTIALS_{code.upper()}",
        development='{"api_key": "house", "username": "house", "password": "house"}'
        if DEBUG or DEMO
        else "{}",
    )
    for code in CARRIERS
}

# Seconds. A day is what the contract promises at least.
IDEMPOTENCY_KEY_LIFE = env.seconds("IDEMPOTENCY_KEY_LIFE", 24 * 3600, minimum=1)
# Seconds (a year). What a parcel says of people is needed for claims, which carriers take for some
# months. Its numbers stay.
PARCEL_KEEP = env.seconds("PARCEL_KEEP", 365 * 24 * 3600, minimum=1)
# Seconds (90 days). A label is printed within days; what comes back does so within a few weeks.
DOCUMENT_KEEP = env.seconds("DOCUMENT_KEEP", 90 * 24 * 3600, minimum=1)

# Seconds (two years). Attempts and tracking events are what invoices are argued about with, which
# ends after a year or so. On PostgreSQL they go by whole months. At least 45 days: a label can be
# cancelled for 42, and what became of a void is judged by those before it.
HISTORY_KEEP = env.seconds("HISTORY_KEEP", 2 * 365 * 24 * 3600, minimum=45 * 24 * 3600)

# Labels --------------------------------------------------------------------------------------
# Where a new label's bytes go: into its row, or a file of STORAGES["labels"]. Both are read: files
# are there until DOCUMENT_KEEP has passed, and LABELS_URL stays set as long.
LABELS_IN = env.choice("LABELS_IN", "database", ("database", "storage"))
_labels = env.storage("LABELS_URL")
STORAGES = global_settings.STORAGES | ({"labels": _labels} if _labels else {})

# Waiting -------------------------------------------------------------------------------------
WAIT_MAXIMUM = env.seconds("WAIT_MAXIMUM", 120, minimum=1, maximum=_LONGEST_WAIT)
# Most load balancers cut at 60 s: the default answer comes before that.
WAIT_DEFAULT = env.seconds(
    "WAIT_DEFAULT", min(55 * TIME_SCALE, WAIT_MAXIMUM), minimum=0, maximum=WAIT_MAXIMUM
)
# Threads of a web process whose workers wait, as its strategy starts it: accounts share them
# (parcels.services.waits). 0: unknown, or one per process.
WEB_THREADS = env.integer("WEB_THREADS", env.integer("WEB_GREENLETS", 0, minimum=0), minimum=0)

OFFLOAD = {
    "BACKEND": env.text("OFFLOAD_BACKEND", "inline"),
    "REDIS_URL": env.store("OFFLOAD_STORE", REDIS_URL),
    "SECRET": env.secret("OFFLOAD_SECRET", development=_DEVELOPMENT_SECRET),
    "SECRET_FALLBACKS": env.secrets("OFFLOAD_SECRET_FALLBACKS"),
    "RESOLVE": "parcels.services.answering.resolve",
    "RESOLVE_URL": env.text("OFFLOAD_RESOLVE_URL", ""),
    "DEADLINE": WAIT_MAXIMUM,
    # Threads of a web process under `asgi-hold`. More would wait for the interpreter, not for work.
    "MAX_CONCURRENCY": env.integer("OFFLOAD_MAX_CONCURRENCY", 8, minimum=1),
    # Less, and late answers leave before the socket is closed; more, and the server's own
    # limit (20 s, the strategy's Procfile) cuts the clients still held.
    "DRAIN_SECONDS": env.seconds("OFFLOAD_DRAIN_SECONDS", 0.5, minimum=0.5, maximum=15),
    "MAX_HOLDS": env.integer("OFFLOAD_MAX_HOLDS", 10_000, minimum=1),
    "MAX_HOLDS_PER_ACCOUNT": env.integer("OFFLOAD_MAX_HOLDS_PER_ACCOUNT", 1_000, minimum=1),
}

# Webhooks ------------------------------------------------------------------------------------
# Seconds for one try at a receiver: a slower one should answer first and work later.
WEBHOOK_DEADLINE = env.seconds("WEBHOOK_DEADLINE", 10, minimum=0.1, maximum=_LONGEST_CALL)
# Opens private networks, loopback, plain HTTP and every port to webhooks; see docs/operations.md.
WEBHOOK_ALLOW_PRIVATE = env.boolean("WEBHOOK_ALLOW_PRIVATE", False)
WEBHOOK_PORTS = env.words("WEBHOOK_PORTS", "443,8443")
# Seconds (5 days). An endpoint that fails for so long is switched off; a delivery that has been due
# for so long fails.
WEBHOOK_GIVE_UP = env.seconds("WEBHOOK_GIVE_UP", 5 * 24 * 3600, minimum=1)
# Seconds. A month: long enough for a shop to ask what became of an event. What is still to be
# delivered is never too old.
WEBHOOK_KEEP = env.seconds("WEBHOOK_KEEP", 30 * 24 * 3600, minimum=1)

# Celery --------------------------------------------------------------------------------------
# Announcements that a worker has in flight at once, and its threads for everything else, which are
# made on demand. Over the sum of all bulkheads: carriers that hang leave room for the others, for
# voids and for webhooks (shipping.W001).
WORKER_CONCURRENCY = env.integer("WORKER_CONCURRENCY", 2500, minimum=1)
BROKER_URL = env.store("BROKER_URL", REDIS_URL, "amqp", "amqps")
_broker = brokers.of(BROKER_URL)
CELERY_BROKER_URL = _broker.url
CELERY_BROKER_TRANSPORT_OPTIONS = _broker.transport_options
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = False  # the row and the sweeper guarantee; see docs/adr
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_TASK_DEFAULT_QUEUE = "default"
# A worker without --queues serves all of these.
CELERY_TASK_QUEUES = {
    name: {"queue_arguments": _broker.queue_arguments}
    for name in (*(f"announce.{code}" for code in CODES), "default")
}
# Beside quorum queues a worker makes 28 more at its start, for tasks with a date: we have none.
CELERY_BROKER_NATIVE_DELAYED_DELIVERY_QUEUE_TYPE = "classic"
CELERY_TASK_PUBLISH_RETRY = False  # a wake-up is best effort; the sweeper sends it again
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
# A Redis that takes no writes (a full disk, a switch to another) is one that is away: without this
# each worker ends.
CELERY_BROKER_CHANNEL_ERROR_RETRY = True
# Of tasks that are acknowledged late, and none is: unset, each loss would be nine lines of warning.
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = True
CELERY_BROKER_POOL_LIMIT = 32
# Seconds. RabbitMQ's: a worker finds a silent one within two or three of these.
CELERY_BROKER_HEARTBEAT = 10
CELERY_BROKER_CONNECTION_TIMEOUT = brokers.CONNECT_TIMEOUT

# "auto": JSON, but short lines on a terminal and in the demo.
LOG_FORMAT = env.choice("LOG_FORMAT", "auto", ("auto", "json", "line"))
LOGGING = logs.configuration(
    level=env.choice("LOG_LEVEL", "WARNING", ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")),
    json=logs.wants_json(LOG_FORMAT, demo=DEMO or DEBUG),
)

# Metrics -------------------------------------------------------------------------------------
# What Prometheus brings as a bearer token. Without it /metrics is closed, but for the demo's own
# machine.
METRICS_TOKEN = env.secret("METRICS_TOKEN", development="")

# Security ------------------------------------------------------------------------------------
_TLS = not (DEBUG or DEMO)
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_SSL_REDIRECT = env.boolean("SECURE_SSL_REDIRECT", _TLS)
# The hub asks over plain HTTP on the inside; health checks come from the inside, too.
SECURE_REDIRECT_EXEMPT = [r"^_offload/", r"^healthz/?$", r"^readyz/?$", r"^metrics$"]
SECURE_HSTS_SECONDS = env.integer("SECURE_HSTS_SECONDS", 31_536_000 if _TLS else 0)
# Both are for other names, too, which browsers remember for years: the domain's owner decides.
SECURE_HSTS_INCLUDE_SUBDOMAINS = env.boolean("SECURE_HSTS_INCLUDE_SUBDOMAINS", False)
SECURE_HSTS_PRELOAD = env.boolean("SECURE_HSTS_PRELOAD", False)
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]  # which want them at any rate
# Seconds: a working day. Django's two weeks outlast a lost laptop's discovery.
SESSION_COOKIE_AGE = 12 * 3600
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}", "OPTIONS": options}
    for name, options in {
        "UserAttributeSimilarityValidator": {},
        "MinimumLengthValidator": {"min_length": 12},
        "CommonPasswordValidator": {},
        "NumericPasswordValidator": {},
    }.items()
]
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = _TLS
SECURE_PROXY_SSL_HEADER = (
    ("HTTP_X_FORWARDED_PROTO", "https") if env.boolean("BEHIND_TLS_PROXY", False) else None
)
# Proxies whose X-Forwarded-For is believed; "unix" is one that comes by a Unix socket.
TRUSTED_PROXIES = env.networks("TRUSTED_PROXIES", "unix")
# Requests of one address under way, in each process of an ASGI server that clients reach directly;
# 0 is no limit. Behind a proxy all come from its address; a front of ours has the same limit.
FRONT_CONNECTIONS_PER_ADDRESS = env.integer(
    "FRONT_CONNECTIONS_PER_ADDRESS", 256 if _TLS and SECURE_PROXY_SSL_HEADER is None else 0
)
X_FRAME_OPTIONS = "DENY"
# 1 MB bodies are part of the contract: a batch of 100 parcels with items stays under it.
DATA_UPLOAD_MAX_MEMORY_SIZE = 2 * 1024 * 1024
