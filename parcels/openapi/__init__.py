"""The OpenAPI 3.1 document: `/api/v2/schema`.

Requests come from the serializers that read them. Answers are plain functions here (see
`representation`), so their shapes are declared, and every answer in the test suite is checked
against them.
"""
