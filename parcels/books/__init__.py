"""Compare the carriers' invoice lists with our announcements."""
