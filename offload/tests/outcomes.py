"""A RESOLVE for tests in this process: its database is a dictionary."""

from django.http import JsonResponse

known: dict[str, object] = {}
asked: list[tuple[list[str], bool]] = []


def resolve(hold_ids, *, final_only=True):
    asked.append((list(hold_ids), final_only))
    found = {key: JsonResponse({"final": known[key]}) for key in hold_ids if key in known}
    if not final_only:
        late = {key: JsonResponse({"late": key}, status=202) for key in hold_ids}
        found = late | found
    return found
