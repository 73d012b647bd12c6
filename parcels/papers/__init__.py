"""What is printed: labels in the forms that printers take, and customs papers."""
