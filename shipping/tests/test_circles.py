"""No file imports itself by way of others: each can be read, and taken, with what is below it."""

import grimp

OURS = ("shipping", "parcels", "carriers", "offload", "deploy", "loadtests")


def circles(graph: grimp.ImportGraph) -> list[str]:
    return sorted(
        module
        for module in graph.modules
        if any(
            module in graph.find_upstream_modules(imported) | {imported}
            for imported in graph.find_modules_directly_imported_by(module)
        )
    )


def test_no_file_is_in_a_circle() -> None:
    # What is imported for types alone runs nothing: `shapes` name the carrier that they are of.
    assert circles(grimp.build_graph(*OURS, exclude_type_checking_imports=True)) == []


def test_a_circle_is_seen() -> None:
    graph = grimp.ImportGraph()
    for importer, imported in (("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")):
        graph.add_import(importer=importer, imported=imported)
    assert circles(graph) == ["a", "b", "c"]
