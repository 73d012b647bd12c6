"""Labels and other documents: by parcel, by printer."""

from django.http import HttpResponse
from rest_framework.exceptions import NotAcceptable, NotFound, ValidationError
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from parcels import limits
from parcels.papers.documents import document
from parcels.papers.labels import as_png, on_sheets, one_after_another
from parcels.query import identifier, identifiers, small_integer
from parcels.representation import label_payload
from parcels.selectors import labels_of
from parcels.views.request import account_of, base_url, count

TYPES = {"pdf": "application/pdf", "zpl": "application/zpl", "png": "image/png"}
# What an Accept may call each form, the most specific first. JSON: what some clients ask of all.
NAMES = {
    "pdf": ("application/pdf", "application/json", "application/*", "*/*"),
    "zpl": ("application/zpl", "application/*", "*/*"),
    "png": ("image/png", "image/*", "*/*"),
}
# What each form can be had in; the first is the default.
RESOLUTIONS = {"pdf": (72,), "zpl": (203,), "png": (300, 150)}


class PaperView(APIView):
    """A view that sends a document."""

    def perform_content_negotiation(
        self, request: Request, force: bool = False
    ) -> tuple[BaseRenderer, str]:
        """Let errors be JSON whatever document was asked for."""
        return super().perform_content_negotiation(request, force=True)


class DocumentView(PaperView):
    """`/parcels/{id}/documents/{type}`"""

    def get(self, request: Request, parcel_id: str, kind: str) -> HttpResponse:
        """Send the document in the form that `format` or Accept asks for."""
        parcel = identifier(parcel_id)
        form = document_form(request)
        dpi = resolution(request, form)
        source = "zpl" if form == "zpl" else "pdf"
        content = document(account=account_of(request), parcel_id=parcel, kind=kind, form=source)
        if content is None:
            raise NotFound("There is no such document.")
        if form == "png":
            content = as_png(content, dpi)
        return file_response(content, TYPES[form], f"{kind}-{parcel}.{form}")


class LabelView(APIView):
    """`/labels/{id}`"""

    def get(self, request: Request, parcel_id: str) -> Response:
        """Show where the parcel's label is."""
        parcel = identifier(parcel_id)
        _labels(request, [parcel], read=False)
        return Response({"label": label_payload(parcel, base_url(request))})


class LabelsView(APIView):
    """`/labels`"""

    def post(self, request: Request) -> Response:
        """Show where the labels of several parcels are, as one document."""
        label = request.data.get("label") if isinstance(request.data, dict) else None
        wanted = label.get("parcels") if isinstance(label, dict) else None
        words = [str(each).strip() for each in wanted] if isinstance(wanted, list) else []
        parcels = identifiers(",".join(words), "label.parcels")
        if not words or not all(map(str.isdigit, words)):  # "" is no id, and "1,2" are two
            needed = f"A list of 1 to {limits.IDS} parcel ids is needed."
            raise ValidationError({"label": {"parcels": [needed]}})
        _labels(request, parcels, read=False)
        ids = ",".join(map(str, parcels))
        base = f"{base_url(request)}/api/v2/labels"
        sheet = f"{base}/normal_printer?ids={ids}&start_from="
        return Response(
            {
                "label": {
                    "normal_printer": [f"{sheet}{quadrant}" for quadrant in range(4)],
                    "label_printer": f"{base}/label_printer?ids={ids}",
                }
            }
        )


class PrinterView(PaperView):
    """`/labels/{printer}[/{id}]`"""

    def get(self, request: Request, printer: str, parcel_id: str = "") -> HttpResponse:
        """Send the labels for an A6 printer, or on A4 sheets beginning at a quadrant."""
        labels = _labels(request, _parcels(request, parcel_id))
        if printer == "label_printer":
            return file_response(one_after_another(labels), TYPES["pdf"], "labels.pdf")
        start_from = small_integer(request.query_params, "start_from") or 0
        if start_from > 3:
            raise ValidationError({"start_from": ["A quadrant is 0, 1, 2 or 3."]})
        return file_response(on_sheets(labels, start_from), TYPES["pdf"], "labels-a4.pdf")


class CustomsDeclarationView(PaperView):
    """`/customs_declaration/normal_printer[/{id}]`"""

    def get(self, request: Request, parcel_id: str = "") -> HttpResponse:
        """Send the CN23s, each on an A4 sheet of its own; `start_from` has no place on it."""
        account = account_of(request)
        papers: list[bytes] = []
        for parcel in _parcels(request, parcel_id):
            paper = document(account=account, parcel_id=parcel, kind="cn23-default", form="pdf")
            if paper is None:
                raise NotFound(f"There is no customs declaration for {parcel}.")
            papers.append(paper)
        return file_response(one_after_another(papers), TYPES["pdf"], "customs-declarations.pdf")


def document_form(request: Request) -> str:
    """Return pdf, zpl or png: `format` wins over Accept; of its equals the one named first.

    Raises:
        ValidationError, NotAcceptable: there is no such form.
    """
    named = request.query_params.get("format")
    if named:
        if named not in TYPES:
            raise ValidationError({"format": ["Choose pdf, zpl or png."]})
        return named
    # The library's list, which is cut to limits.ACCEPT. No regular expression: one that finds media
    # types in any text takes the square of its length.
    tokens = DefaultContentNegotiation().get_accept_list(request)
    given = dict([_range(token) for token in tokens if "/" in token] or [("*/*", 1.0)])
    said = {form: next((n for n in names if n in given), "") for form, names in NAMES.items()}
    fits = [form for form, name in said.items() if given.get(name, 0) > 0]
    if not fits:
        raise NotAcceptable
    return min(fits, key=lambda form: (-given[said[form]], list(given).index(said[form])))


def _range(token: str) -> tuple[str, float]:
    """Return a media range and its quality, which is 1 where it can't be read."""
    name, *parameters = [part.strip().lower() for part in token.split(";")]
    quality = next((text[2:] for text in parameters if text.startswith("q=")), "")
    try:
        return name, min(float(quality), 1)
    except ValueError:
        return name, 1


def resolution(request: Request, form: str) -> int:
    """Return the dots per inch that are asked for.

    Raises:
        ValidationError: the form can't be had in it.
    """
    wanted = small_integer(request.query_params, "dpi")
    if wanted is None:
        return RESOLUTIONS[form][0]
    if wanted not in RESOLUTIONS[form]:
        choices = " or ".join(str(dpi) for dpi in sorted(RESOLUTIONS[form]))
        raise ValidationError({"dpi": [f"{form} can be had with {choices} dpi."]})
    return wanted


def file_response(content: bytes, media_type: str, name: str) -> HttpResponse:
    """Return a document that a browser shows."""
    response = HttpResponse(content, content_type=media_type)
    response["Content-Disposition"] = f'inline; filename="{name}"'
    return response


def _parcels(request: Request, parcel_id: str) -> list[int]:
    """Return the parcel of the path, else those of the query, which count as a read each."""
    ids = request.query_params.get("ids", "")
    parcels = [identifier(parcel_id)] if parcel_id else identifiers(ids, "ids")
    if not parcels:
        raise ValidationError({"ids": ["This field is required."]})
    if len(parcels) > 1:
        count(account_of(request), "read", charge=len(parcels) - 1)
    return parcels


def _labels(request: Request, parcels: list[int], *, read: bool = True) -> list[bytes]:
    found = labels_of(account_of(request), parcels, read=read)
    if missing := [str(parcel) for parcel in parcels if parcel not in found]:
        raise NotFound(f"There is no label for {', '.join(missing)}.")
    return [found[parcel] for parcel in parcels]
